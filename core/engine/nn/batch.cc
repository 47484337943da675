#include <capstan/base/error.h>
#include <capstan/base/text.h>
#include <capstan/nn/batch.h>

#include <algorithm>
#include <utility>

#include "ops/move_rows.h"

namespace capstan::nn {
namespace {

std::vector<std::int64_t> with_rows(std::int64_t rows, std::int64_t cols, const at::Tensor& x) {
  std::vector<std::int64_t> shape{rows, cols};
  shape.insert(shape.end(), x.sizes().begin() + 2, x.sizes().end());
  return shape;
}

}  // namespace

at::Tensor Documents::apart(const at::Tensor& x) const {
  return ops::move_rows(x.flatten(0, 1), packed, alone, count * longest).view(with_rows(count, longest, x));
}

at::Tensor Documents::together(const at::Tensor& x, std::int64_t rows, std::int64_t cols) const {
  return ops::move_rows(x.flatten(0, 1), alone, packed, rows * cols).view(with_rows(rows, cols, x));
}

Batch Batch::apart() const {
  CAPSTAN_ASSERT(documents.has_value());
  auto batch = *this;
  batch.documents.reset();
  batch.positions = at::arange(documents->longest, positions.options()).expand({documents->count, documents->longest});
  batch.sample_ids = documents->sample_ids;
  batch.tokens = batch.labels = batch.loss_rows = batch.real = at::Tensor();
  return batch;
}

Batch Batch::whole() const {
  if (!part) return *this;
  auto batch = *part->whole;
  batch.pass = pass;
  batch.seed = seed;
  batch.step = step;
  batch.device_step = device_step;
  batch.training = training;
  batch.kept = kept;
  return batch;
}

at::Tensor Batch::own_columns(const at::Tensor& x) const { return part ? x.index_select(1, part->columns) : x; }

at::Tensor Batch::among_all_columns(const at::Tensor& x) const {
  if (!part) return x;
  auto shape = x.sizes().vec();
  shape[1] = part->whole->tokens.size(1);
  return at::zeros(shape, x.options()).index_copy(1, part->columns, x);
}

Batch cut_columns(std::shared_ptr<const Batch> whole, const SequenceCut& cut) {
  auto part = std::make_shared<SequencePart>(SequencePart{std::move(whole), {}, {}, cut});
  const auto& tokens = part->whole->tokens;
  part->own = cut.own(tokens.size(1));
  std::vector<at::Tensor> columns{at::empty({0}, tokens.options())};
  for (const auto& range : part->own)
    columns.push_back(at::arange(range.begin, range.begin + range.length, tokens.options()));
  part->columns = at::cat(columns);
  auto batch = *part->whole;
  batch.part = part;
  batch.documents.reset();
  batch.loss_rows = at::Tensor();
  for (auto* of_columns : {&batch.tokens, &batch.labels, &batch.positions, &batch.real}) {
    if (of_columns->defined()) *of_columns = batch.own_columns(*of_columns);
  }
  for (auto& field : batch.samples.fields) {
    if (field.values.dim() == 2) field.values = batch.own_columns(field.values);
  }
  return batch;
}

const at::Tensor& Batch::field(std::string_view name) const {
  const auto& fields = samples.fields;
  const auto found = std::find_if(fields.begin(), fields.end(), [&](const Field& field) { return field.name == name; });
  if (found != fields.end()) return found->values;
  std::vector<std::string> names;
  for (const auto& field : fields) names.push_back(field.name);
  throw Error(cat("the data has no field '", name, "'"),
              names.empty() ? std::string("it declares none") : cat("it declares ", join(names)));
}

at::Tensor Batch::label_sequences() const {
  const auto& all = part ? *part->whole : *this;
  if (const auto& packed = all.documents) {
    const auto each = packed->alone.div(packed->longest, "floor");
    auto of_positions = at::zeros({all.tokens.numel()}, tokens.options());
    of_positions.scatter_(0, packed->packed, packed->sequences.index_select(0, each));
    of_positions = own_columns(of_positions.view_as(all.tokens)).flatten();
    return loss_rows.defined() ? of_positions.index_select(0, loss_rows) : of_positions;
  }
  const auto positions_of_all = loss_rows.defined() ? loss_rows : at::arange(tokens.numel(), tokens.options());
  return positions_of_all.div(tokens.size(1), "floor");
}

at::Tensor Batch::sum_by_sequence(const at::Tensor& values) const {
  // No position stands twice in loss_rows, and no sequence twice in documents: nothing is added where it is moved to.
  const auto moved = [&](const at::Tensor& from, const at::Tensor& to, std::int64_t size) {
    return at::zeros({size}, from.options()).scatter(0, to, from);
  };
  const auto of_positions = loss_rows.defined() ? moved(values, loss_rows, tokens.numel()) : values;
  const auto rows = of_positions.view(tokens.sizes());
  auto sums = rows.sum(1);
  if (const auto& packed = part ? part->whole->documents : documents) {
    const auto each = packed->apart(among_all_columns(rows).unsqueeze(-1)).squeeze(-1).sum(1);
    sums = moved(each, packed->sequences, samples.sequences());
  }
  return part ? part->cut.sum(sums) : sums;
}

at::Tensor Batch::last_labels() const {
  const auto& all = part ? *part->whole : *this;
  // The last label of a row is the one from which on the row has a single one.
  const auto last_of_rows = [](const at::Tensor& is_label) {
    return is_label.flip(1).cumsum(1).flip(1).eq(1).logical_and(is_label.ne(0));
  };
  const auto is_label = all.labels.ge(0).to(at::kLong);
  at::Tensor found;
  if (const auto& packed = all.documents) {
    const auto alone = last_of_rows(packed->apart(is_label.unsqueeze(-1)).squeeze(-1)).to(at::kLong).unsqueeze(-1);
    found = packed->together(alone, is_label.size(0), is_label.size(1)).squeeze(-1).ne(0);
  } else {
    found = last_of_rows(is_label);
  }
  const auto own = own_columns(found).flatten();
  return loss_rows.defined() ? own.index_select(0, loss_rows) : own;
}

at::Tensor Batch::has_sample() const {
  if (part && !part->cut.represents_sample) return at::zeros({samples.count}, tokens.options().dtype(at::kBool));
  if (documents || (part && part->whole->documents))
    return at::ones({samples.count}, tokens.options().dtype(at::kBool));
  return sample_ids.view({samples.count, samples.per_sample}).select(1, 0).ge(0);
}

namespace {

// Heads of whole 16 bytes travel as numbers of 16: those of 2 are copied one by one, at a quarter of memory's rate.
void copy_rows(const at::Tensor& to, const at::Tensor& rows, const at::Tensor& from) {
  const auto is_whole = [](const at::Tensor& heads) {
    const auto pack = static_cast<std::int64_t>(sizeof(c10::complex<double>)) / heads.element_size();
    const auto outer = heads.strides().slice(0, static_cast<std::size_t>(heads.dim() - 1));
    return heads.stride(-1) == 1 && (heads.size(-1) | heads.storage_offset()) % pack == 0 &&
           std::all_of(outer.begin(), outer.end(), [&](std::int64_t stride) { return stride % pack == 0; });
  };
  if (!is_whole(to) || !is_whole(from)) {
    to.index_copy_(0, rows, from);
  } else {
    to.view(at::kComplexDouble).index_copy_(0, rows, from.view(at::kComplexDouble));
  }
}

}  // namespace

void KVCache::set_filled() {
  filled_ = true;
  rows_ = at::Tensor();
}

void KVCache::begin_rows(const at::Tensor& rows, std::int64_t count) {
  filled_ = false;
  rows_ = rows;
  count_ = count;
}

const KVCache::Entry& KVCache::put(std::size_t index, const at::Tensor& k, const at::Tensor& v,
                                   const at::Tensor& positions) {
  if (entries_.size() <= index) entries_.resize(index + 1);
  auto& entry = entries_[index];
  if (!entry.keys.defined()) {
    const auto rows = rows_.defined() ? count_ : k.size(0);
    entry.keys = at::zeros({rows, k.size(1), capacity_, k.size(3)}, k.options());
    entry.values = at::zeros({rows, v.size(1), capacity_, v.size(3)}, v.options());
  }
  if (rows_.defined()) {
    for (const auto& [all, some] : {std::pair{entry.keys, k}, std::pair{entry.values, v}}) {
      copy_rows(all.narrow(2, 0, some.size(2)), rows_, some);
      // What is no number, times a probability of 0, would still be none.
      all.narrow(2, some.size(2), capacity_ - some.size(2)).index_fill_(0, rows_, 0);
    }
    return entry;
  }
  const auto where = positions.unsqueeze(1).unsqueeze(-1);
  entry.keys.scatter_(2, where.expand(k.sizes()), k);
  entry.values.scatter_(2, where.expand(v.sizes()), v);
  return entry;
}

void KVCache::put_state(std::size_t index, const std::vector<at::Tensor>& state) {
  if (states_.size() <= index) states_.resize(index + 1);
  auto& kept = states_[index];
  if (!rows_.defined()) {
    kept = state;
    return;
  }
  kept.resize(state.size());
  for (std::size_t i = 0; i < state.size(); ++i) {
    auto shape = state[i].sizes().vec();
    shape.front() = count_;
    if (!kept[i].defined()) kept[i] = at::zeros(shape, state[i].options());
    kept[i].index_copy_(0, rows_, state[i]);
  }
}

}  // namespace capstan::nn
