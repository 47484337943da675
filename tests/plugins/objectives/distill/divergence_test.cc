#include "plugins/objectives/distill/divergence.h"

#include <ATen/ATen.h>
#include <capstan_catch.h>
#include <torch/csrc/autograd/autograd.h>

#include <cmath>

#include "ops/jacobian.h"
#include "ops/split_vocabulary.h"
#include "predict/door.h"

namespace divergence_test {

using namespace capstan;
using capstan::testing::jacobian_error;
using capstan::testing::on_split_vocabulary;
using distill::chunked_linear_divergence;
using distill::TeacherStates;
using distill::TeacherWords;

namespace {

constexpr std::int64_t words = 11, most = 4;

at::Tensor doubles(std::int64_t rows, std::int64_t columns, double step) {
  return at::arange(1, rows * columns + 1, at::kDouble).mul(step).sin().mul(2).view({rows, columns});
}

struct Inputs {
  at::Tensor hidden = doubles(9, 5, 1.7), weight = doubles(words, 5, 0.9);
  at::Tensor labels = at::tensor({3, -100, 10, 0, 5, -100, 1, 2, 9}, at::kLong);
  TeacherStates teacher{doubles(9, 3, 0.4), doubles(words, 3, 1.1)};
  double temperature = 1.7;
  std::optional<double> cap = {};  ///< of the student's logits; the teacher's is its own

  static at::Tensor capped(const at::Tensor& logits, const std::optional<double>& cap) {
    return cap ? (logits / *cap).tanh() * *cap : logits;
  }
  at::Tensor teacher_logits() const { return capped(teacher.hidden.mm(teacher.weight.t()), teacher.cap) / temperature; }
  /// The teacher's most likely words.
  TeacherWords best(TeacherWords::Rest rest) const {
    const auto [values, ids] = at::log_softmax(teacher_logits(), 1).topk(most, 1);
    return {ids, values, rest};
  }
};

/// By ATen's own functions: the sum over the rows with a label of Σ p (log p - log q).
at::Tensor plain(const Inputs& in, const std::vector<at::Tensor>& student, const at::Tensor& p, const at::Tensor& q) {
  const auto rows = (at::xlogy(p, p) - p * q.log()).sum(1);
  CHECK(student.size() == 2);
  return rows.masked_fill(in.labels.eq(ops::ignored_label), 0).sum();
}

at::Tensor student_softmax(const Inputs& in, const std::vector<at::Tensor>& x) {
  return at::softmax(Inputs::capped(x[0].mm(x[1].t()), in.cap) / in.temperature, 1);
}

/// The k words, and all others as one.
at::Tensor with_tail(const at::Tensor& all, const at::Tensor& ids) {
  const auto some = all.gather(1, ids);
  return at::cat({some, 1 - some.sum(1, true)}, 1);
}

using Function = std::function<at::Tensor(const std::vector<at::Tensor>&)>;

/// The loss and both gradients.
std::vector<at::Tensor> learnt(const Inputs& in, const Function& function) {
  const std::vector<at::Tensor> x{in.hidden.clone().set_requires_grad(true), in.weight.clone().set_requires_grad(true)};
  const auto loss = function(x);
  auto all = torch::autograd::grad({loss * 0.3}, x);
  all.insert(all.begin(), loss.detach());
  return all;
}

double apart(const std::vector<at::Tensor>& a, const std::vector<at::Tensor>& b) {
  double largest = 0;
  for (std::size_t i = 0; i < b.size(); ++i)
    largest = std::max(largest, ((a[i] - b[i]).abs().max() / b[i].abs().max()).item<double>());
  return largest;
}

/// Each kind of teacher: what is tested, and its reference.
struct Kind {
  std::string name;
  std::function<at::Tensor(const Inputs&, const std::vector<at::Tensor>&, const distill::DivergenceSettings&)> function;
  std::function<at::Tensor(const Inputs&, const std::vector<at::Tensor>&)> reference;
};

Kind of_words(const std::string& name, TeacherWords::Rest rest) {
  return {name,
          [=](const Inputs& in, const auto& x, const auto& settings) {
            return chunked_linear_divergence(x[0], x[1], in.labels, in.best(rest), settings);
          },
          [=](const Inputs& in, const auto& x) {
            const auto teacher = in.best(rest);
            const auto p = teacher.log_probabilities.exp(), q = student_softmax(in, x);
            if (rest == TeacherWords::Rest::renormalised)
              return plain(in, x, p / p.sum(1, true), q.gather(1, teacher.ids));
            return plain(in, x, at::cat({p, 1 - p.sum(1, true)}, 1), with_tail(q, teacher.ids));
          }};
}

std::vector<Kind> kinds() {
  const Kind states{"states",
                    [](const Inputs& in, const auto& x, const auto& settings) {
                      return chunked_linear_divergence(x[0], x[1], in.labels, in.teacher, settings);
                    },
                    [](const Inputs& in, const auto& x) {
                      return plain(in, x, at::softmax(in.teacher_logits(), 1), student_softmax(in, x));
                    }};
  return {states, of_words("tail", TeacherWords::Rest::tail),
          of_words("renormalised", TeacherWords::Rest::renormalised)};
}

/// Student and teacher with caps of their own; logits are up to 17.
Inputs with_caps() {
  Inputs in;
  in.cap = 1.5;
  in.teacher.cap = 2.5;
  return in;
}

std::vector<at::Tensor> split(const Inputs& in, const Kind& kind, int ranks) {
  return on_split_vocabulary(in.hidden, in.weight, ranks, [&](const ops::VocabularyPart& part, const auto& piece) {
    const distill::DivergenceSettings settings{in.temperature, 4, part, in.cap};
    auto mine = in;
    mine.weight = in.weight.narrow(0, piece.begin, piece.length);
    if (kind.name == "states") mine.teacher.weight = in.teacher.weight.narrow(0, piece.begin, piece.length);
    return learnt(mine, [&](const auto& x) { return kind.function(mine, x, settings); });
  });
}

}  // namespace

TEST_CASE("the divergence from a teacher is the plain one at any chunk size, and its backward the Jacobian") {
  const auto in = GENERATE(Inputs(), with_caps());
  for (const auto& kind : kinds()) {
    INFO(kind.name);
    const auto expected = learnt(in, [&](const auto& x) { return kind.reference(in, x); });
    for (const std::int64_t chunk : {1, 3, 4, 100}) {
      const auto found = [&](const auto& x) { return kind.function(in, x, {in.temperature, chunk, {}, in.cap}); };
      CHECK(apart(learnt(in, found), expected) < 1e-13);
      CHECK(jacobian_error(found, {in.hidden, in.weight}) < 1e-8);
    }
  }
}

TEST_CASE("the divergence does not depend on how the vocabulary is split") {
  const int ranks = GENERATE(1, 2, 3, 4);
  const auto in = GENERATE(Inputs(), with_caps());
  for (const auto& kind : kinds()) {
    INFO(kind.name << ", " << ranks << " ranks");
    const auto expected = learnt(in, [&](const auto& x) { return kind.reference(in, x); });
    CHECK(apart(split(in, kind, ranks), expected) < 1e-12);
  }
}

TEST_CASE("a teacher's likeliest words are those of whole logits, for any chunk size and split vocabulary") {
  const auto in = GENERATE(Inputs(), with_caps());
  const auto [values, ids] = at::log_softmax(in.teacher_logits(), 1).topk(most, 1);
  const auto check = [&, values = values, ids = ids](const TeacherWords& found) {
    CHECK(at::equal(found.ids, ids));
    CHECK((found.log_probabilities - values).abs().max().item<double>() < 1e-13);
  };
  for (const std::int64_t chunk : {1, 4, 100}) {
    check(distill::likeliest_words(in.teacher.hidden, in.teacher.weight, most,
                                   {in.temperature, chunk, {}, in.teacher.cap}));
  }
  const int ranks = GENERATE(2, 3, 4);  // of four, each has fewer words than are asked for
  const auto all = on_split_vocabulary(
      in.teacher.hidden, in.teacher.weight, ranks, [&](const ops::VocabularyPart& part, const auto& piece) {
        const auto mine = in.teacher.weight.narrow(0, piece.begin, piece.length);
        const auto found =
            distill::likeliest_words(in.teacher.hidden, mine, most, {in.temperature, 4, part, in.teacher.cap});
        return std::vector{at::stack({found.ids.to(at::kDouble), found.log_probabilities}), in.teacher.hidden, mine};
      });
  check({all[0][0].to(at::kLong), all[0][1]});
}

TEST_CASE("a student that is its teacher has no divergence and no gradient") {
  Inputs in;
  in.teacher = {in.hidden, in.weight};
  for (const auto& kind : kinds()) {
    if (kind.name == "renormalised") continue;  // the student is asked to give all to the k words
    const auto found = learnt(in, [&](const auto& x) { return kind.function(in, x, {in.temperature, 4}); });
    for (const auto& x : found) CHECK(x.abs().max().item<double>() < 1e-14);
  }
}

TEST_CASE("divergences of 16-bit states are float32's, and gradients have the states' dtype") {
  const Inputs in;
  for (const auto& kind : kinds()) {
    INFO(kind.name);
    const auto narrow = [&](const at::Tensor& x) { return x.to(at::kBFloat16); };
    Inputs rounded = in;
    rounded.hidden = narrow(in.hidden).to(at::kDouble);
    rounded.weight = narrow(in.weight).to(at::kDouble);
    rounded.teacher = {narrow(in.teacher.hidden).to(at::kDouble), narrow(in.teacher.weight).to(at::kDouble)};
    const auto expected = learnt(rounded, [&](const auto& x) { return kind.reference(rounded, x); });
    const std::vector<at::Tensor> x{narrow(in.hidden).set_requires_grad(true),
                                    narrow(in.weight).set_requires_grad(true)};
    Inputs theirs = rounded;
    if (kind.name == "states") theirs.teacher = {narrow(in.teacher.hidden), narrow(in.teacher.weight)};
    const auto loss = kind.function(theirs, x, {in.temperature, 4});
    CHECK(loss.scalar_type() == at::kFloat);
    CHECK(loss.item<double>() == Approx(expected[0].item<double>()).epsilon(1e-5));
    const auto gradients = torch::autograd::grad({loss * 0.3}, x);
    for (std::size_t i = 0; i < 2; ++i) {
      CHECK(gradients[i].scalar_type() == at::kBFloat16);
      CHECK(apart({gradients[i].to(at::kDouble)}, {expected[i + 1]}) < 2.5 / 256);
    }
  }
}

TEST_CASE("a teacher's words that are certain, or impossible, leave the divergence finite") {
  const auto hidden = doubles(1, 5, 1.7).set_requires_grad(true);
  const auto labels = at::zeros({1}, at::kLong), ids = at::tensor({2, 7}, at::kLong).view({1, 2});
  const auto certain = at::tensor({0.0, -std::numeric_limits<double>::infinity()}, at::kDouble).view({1, 2});
  for (const auto rest : {TeacherWords::Rest::tail, TeacherWords::Rest::renormalised}) {
    const auto loss =
        chunked_linear_divergence(hidden, doubles(words, 5, 0.9), labels, TeacherWords{ids, certain, rest}, {});
    const auto expected = at::log_softmax(hidden.mm(doubles(words, 5, 0.9).t()), 1)[0][2].neg();
    CHECK(loss.item<double>() == Approx(expected.item<double>()));
    const auto gradient = torch::autograd::grad({loss}, {hidden}, {}, true)[0];
    CHECK((gradient - torch::autograd::grad({expected}, {hidden})[0]).abs().max().item<double>() < 1e-13);
  }
}

TEST_CASE("divergences on the meta device have the shapes") {
  (void)predict::door();  // has the meta kernels that ATen has only in Python
  const auto meta = at::TensorOptions(at::kBFloat16).device(at::kMeta);
  const auto hidden = at::empty({6, 4}, meta).set_requires_grad(true);
  const auto weight = at::empty({9, 4}, meta).set_requires_grad(true);
  const auto labels = at::empty({6}, meta.dtype(at::kLong));
  const auto some = distill::likeliest_words(at::empty({6, 2}, meta), at::empty({9, 2}, meta), 3, {2.0, 4});
  CHECK(some.ids.sizes() == at::IntArrayRef({6, 3}));
  CHECK(some.log_probabilities.scalar_type() == at::kFloat);
  for (const auto& loss :
       {chunked_linear_divergence(hidden, weight, labels,
                                  TeacherStates{at::empty({6, 2}, meta), at::empty({9, 2}, meta)}, {2.0, 4}),
        chunked_linear_divergence(hidden, weight, labels, some, {2.0, 4})}) {
    CHECK(loss.scalar_type() == at::kFloat);
    const auto gradients = torch::autograd::grad({loss}, {hidden, weight});
    CHECK(gradients[0].sizes() == hidden.sizes());
    CHECK(gradients[1].sizes() == weight.sizes());
  }
}

}  // namespace divergence_test
