#include "divergence.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>
#include <capstan/base/error.h>
#include <capstan/ops/head_products.h>

#include <algorithm>
#include <limits>
#include <tuple>
#include <utility>

namespace distill {

using namespace capstan;
using ops::HeadProducts;
using ops::TargetRows;

namespace {

/// What the two kinds of teachers share: the student's logits by the chunk, and sums over the ranks of a vocabulary.
class Divergence {
 public:
  Divergence(HeadProducts& student, const DivergenceSettings& settings)
      : student_(student), settings_(settings), losses_(at::empty({student.rows(), 1}, student.numbers())) {}

  /// of_chunk(logits, begin, loss) gets the student's logits divided by the temperature, writes the chunk's losses and
  /// leaves in the logits' place what their gradient is, but for the division.
  template <class OfChunk>
  at::Tensor sum(const at::Tensor& labels, const OfChunk& of_chunk) {
    for (std::int64_t begin = 0; begin < labels.size(0); begin += settings_.chunk_rows) {
      const auto rows = std::min(settings_.chunk_rows, labels.size(0) - begin);
      const at::Tensor logits = student_.logits(begin, rows).div_(settings_.temperature);
      const at::Tensor loss = losses_.narrow(0, begin, rows);
      of_chunk(logits, begin, loss);
      const at::Tensor ignored = labels.narrow(0, begin, rows).eq(ops::ignored_label).unsqueeze(1);
      loss.masked_fill_(ignored, 0);
      if (!student_.wants_gradients()) continue;
      logits.mul_(student_.scale() / settings_.temperature).masked_fill_(ignored, 0);
      student_.add_gradients(logits.to(student_.type()), begin);
    }
    return losses_.sum(at::kDouble).to(student_.sum_type());
  }

  /// log softmax over the whole vocabulary, in the logits' place.
  void to_log_softmax(const at::Tensor& logits) const {
    const at::Tensor maximum = maximum_of(logits);
    logits.sub_(maximum);
    const at::Tensor sum = logits.exp().sum(1, true);
    over_ranks(sum, comm::ReduceOp::sum);
    logits.sub_(sum.log());
  }

  at::Tensor maximum_of(const at::Tensor& logits) const {
    at::Tensor maximum = logits.amax(1, true);
    over_ranks(maximum, comm::ReduceOp::max);
    return maximum;
  }

  void over_ranks(const at::Tensor& numbers, comm::ReduceOp op) const {
    if (settings_.part) settings_.part->group->all_reduce(numbers, op, settings_.part->label);
  }

  /// Where words are among this rank's, and which of them are not (undefined: all are).
  struct Place {
    at::Tensor column;
    at::Tensor elsewhere;
  };
  Place place_of(const at::Tensor& ids) const {
    if (!settings_.part) return {ids, {}};
    const at::Tensor own = ids - settings_.part->begin;
    const std::int64_t last = student_.words() - 1;
    return {own.clamp(0, last), own.lt(0).logical_or(own.gt(last))};
  }

  /// The k best of all ranks, from this rank's own ones [N, up to k] and their ids.
  std::pair<at::Tensor, at::Tensor> best_of_all(const at::Tensor& values, const at::Tensor& ids, std::int64_t k) const {
    const auto missing = k - values.size(1);
    const auto gathered = [&](const at::Tensor& mine) {
      const auto all = at::empty({settings_.part->group->size(), mine.size(0), k}, mine.options());
      settings_.part->group->all_gather(all, mine.contiguous(), settings_.part->label);
      return all.transpose(0, 1).flatten(1);
    };
    constexpr double none = -std::numeric_limits<double>::infinity();
    const auto all_values = gathered(at::constant_pad_nd(values, {0, missing}, none));
    const auto all_ids = gathered(at::constant_pad_nd(ids + settings_.part->begin, {0, missing}));
    auto [best, places] = all_values.topk(k, 1);
    return {best, all_ids.gather(1, places)};
  }

 private:
  HeadProducts& student_;
  const DivergenceSettings& settings_;
  at::Tensor losses_;
};

at::Tensor without(const at::Tensor& x, const at::Tensor& elsewhere) {
  return elsewhere.defined() ? x.masked_fill(elsewhere, 0) : x;
}

at::Tensor from_states(HeadProducts& student, const at::Tensor& labels, HeadProducts& teacher,
                       const DivergenceSettings& settings) {
  Divergence divergence(student, settings);
  return divergence.sum(labels, [&](const at::Tensor& logits, std::int64_t begin, const at::Tensor& loss) {
    const at::Tensor theirs = teacher.logits(begin, logits.size(0)).to(logits.scalar_type());
    theirs.div_(settings.temperature);
    divergence.to_log_softmax(theirs);
    divergence.to_log_softmax(logits);
    const at::Tensor p = theirs.exp();
    const at::Tensor sum = theirs.sub_(logits).mul_(p).sum(1, true);
    divergence.over_ranks(sum, comm::ReduceOp::sum);
    loss.copy_(sum);
    logits.exp_().sub_(p);
  });
}

/// Chunk by chunk with the teacher's k words. E are the student's exponentials without those of these words, so that
/// the rest's sum is exact however little it is.
class FromWords {
 public:
  FromWords(const Divergence& divergence, const TeacherWords& teacher) : divergence_(divergence), teacher_(teacher) {}

  void operator()(const at::Tensor& logits, std::int64_t begin, const at::Tensor& loss) const {
    const auto rows = logits.size(0), k = teacher_.ids.size(1);
    const auto place = divergence_.place_of(teacher_.ids.narrow(0, begin, rows));
    logits.sub_(divergence_.maximum_of(logits));
    const at::Tensor shifted = without(logits.gather(1, place.column), place.elsewhere);
    const at::Tensor own = without(logits.exp_().gather(1, place.column), place.elsewhere);
    logits.scatter_add_(1, place.column, own.neg());  // E
    const at::Tensor both = at::cat({logits.sum(1, true), own, shifted}, 1);
    divergence_.over_ranks(both, comm::ReduceOp::sum);
    const at::Tensor rest = both.narrow(1, 0, 1), sum = rest + both.narrow(1, 1, k).sum(1, true);
    const at::Tensor log_q = both.narrow(1, 1 + k, k) - sum.log();
    const auto given = teacher_.log_probabilities.narrow(0, begin, rows).to(logits.scalar_type());
    const bool has_tail = teacher_.rest == TeacherWords::Rest::tail;
    const at::Tensor log_p = has_tail ? given : given - given.logsumexp(1, true);
    const at::Tensor p = log_p.exp();
    const at::Tensor of_words = (p * (log_p - log_q)).masked_fill(p.eq(0), 0).sum(1, true);
    // A word's gradient is q - p; all others' is q, less the tail's p in proportion to q.
    logits.div_(sum);
    if (has_tail) {
      const at::Tensor p_rest = (1 - p.sum(1, true)).clamp_min(0);
      const at::Tensor q_rest = (rest / sum).clamp_min(std::numeric_limits<float>::min());
      loss.copy_(of_words + at::xlogy(p_rest, p_rest / q_rest));
      logits.mul_(1 - p_rest / q_rest);
    } else {
      loss.copy_(of_words);
    }
    logits.scatter_add_(1, place.column, own / sum - without(p, place.elsewhere));
  }

 private:
  const Divergence& divergence_;
  const TeacherWords& teacher_;
};

void check_settings(const DivergenceSettings& settings) {
  CAPSTAN_ASSERT(settings.temperature > 0 && (!settings.part || settings.part->group != nullptr));
}

}  // namespace

at::Tensor chunked_linear_divergence(const at::Tensor& hidden, const at::Tensor& weight, const at::Tensor& labels,
                                     const TeacherStates& teacher, const DivergenceSettings& settings) {
  ops::check_loss_inputs(hidden, weight, labels, settings.chunk_rows);
  ops::check_loss_inputs(teacher.hidden, teacher.weight, labels, settings.chunk_rows);
  check_settings(settings);
  CAPSTAN_ASSERT(teacher.weight.size(0) == weight.size(0));
  return ops::loss_of_head(
      hidden, weight, labels,
      [&](const TargetRows& targets, HeadProducts& student) {
        HeadProducts theirs(TargetRows::some(teacher.hidden, targets.rows()), teacher.weight, {}, teacher.cap);
        return from_states(student, targets.labels(), theirs, settings);
      },
      settings.cap);
}

at::Tensor chunked_linear_divergence(const at::Tensor& hidden, const at::Tensor& weight, const at::Tensor& labels,
                                     const TeacherWords& teacher, const DivergenceSettings& settings) {
  ops::check_loss_inputs(hidden, weight, labels, settings.chunk_rows);
  check_settings(settings);
  CAPSTAN_ASSERT(teacher.ids.dim() == 2 && teacher.ids.size(0) == hidden.size(0) && teacher.ids.size(1) > 0);
  CAPSTAN_ASSERT(teacher.ids.scalar_type() == at::kLong && teacher.ids.sizes() == teacher.log_probabilities.sizes());
  return ops::loss_of_head(
      hidden, weight, labels,
      [&](const TargetRows& targets, HeadProducts& student) {
        const TeacherWords some{TargetRows::some(teacher.ids, targets.rows()),
                                TargetRows::some(teacher.log_probabilities, targets.rows()), teacher.rest};
        Divergence divergence(student, settings);
        return divergence.sum(targets.labels(), FromWords(divergence, some));
      },
      settings.cap);
}

TeacherWords likeliest_words(const at::Tensor& hidden, const at::Tensor& weight, std::int64_t k,
                             const DivergenceSettings& settings) {
  check_settings(settings);
  CAPSTAN_ASSERT(k > 0 && settings.chunk_rows > 0 && hidden.size(1) == weight.size(1));
  const at::NoGradGuard no_grad;
  HeadProducts products(hidden, weight, {}, settings.cap);
  const Divergence divergence(products, settings);
  TeacherWords found{at::empty({hidden.size(0), k}, hidden.options().dtype(at::kLong)),
                     at::empty({hidden.size(0), k}, products.numbers())};
  for (std::int64_t begin = 0; begin < hidden.size(0); begin += settings.chunk_rows) {
    const auto rows = std::min(settings.chunk_rows, hidden.size(0) - begin);
    const at::Tensor logits = products.logits(begin, rows).div_(settings.temperature);
    divergence.to_log_softmax(logits);
    auto [values, ids] = logits.topk(std::min(k, products.words()), 1);
    if (settings.part) std::tie(values, ids) = divergence.best_of_all(values, ids, k);
    found.log_probabilities.narrow(0, begin, rows).copy_(values);
    found.ids.narrow(0, begin, rows).copy_(ids);
  }
  return found;
}

}  // namespace distill
