#pragma once
// All that attention may be asked for, pairwise, and what it gives by its definition.
#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>
#include <capstan/base/text.h>
#include <capstan/nn/attention.h>

#include <algorithm>
#include <limits>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "support/pairwise.h"

namespace capstan::testing {

/// The factors, in this order.
enum AttentionFactor : std::size_t {
  dtype_,
  window_,
  cap_,
  sinks_,
  alibi_,
  groups_,
  values_,
  dropout_,
  rows_,
  scaled_,
  attention_factors_
};

/// How rows come to attention.
enum AttentionRows : std::size_t { whole_rows, packed_rows, shared_columns, after_a_cache };

/// Levels: float64, float32, bfloat16; no window, one of 3 and one of 7 positions; a key head for each query head, for
/// two; values as wide as keys, half of it; AttentionRows; 1 / sqrt(dim) and 0.11. The others: no and yes.
inline std::vector<std::size_t> attention_levels() { return {3, 3, 2, 2, 2, 2, 2, 2, 4, 2}; }

/// Dropout acts in training, where no cache is filled, and needs whole rows.
inline bool attention_allowed(const Choice& c) {
  return c[dropout_] == 0 || c[rows_] == whole_rows || c[rows_] == packed_rows;
}

/// A sample's place in a batch's rows.
struct SamplePlace {
  std::int64_t row = 0;
  std::int64_t begin = 0;
  std::int64_t length = 0;
};

/// All pairs of levels; and each kind of rows in each dtype with nothing else, with linear biases alone, and with sinks
/// and a window or without one, since fast kernels take calls that want little, which pairs need not contain.
inline std::vector<Choice> attention_choices() {
  auto all = pairwise(attention_levels(), attention_allowed);
  for (std::size_t dtype = 0; dtype < 3; ++dtype) {
    for (std::size_t rows = whole_rows; rows <= after_a_cache; ++rows) {
      Choice choice(attention_factors_, 0);
      choice[dtype_] = dtype;
      choice[rows_] = rows;
      all.push_back(choice);
      choice[alibi_] = 1;
      all.push_back(choice);
      choice[alibi_] = 0;
      choice[sinks_] = choice[groups_] = 1;
      for (choice[window_] = 0; choice[window_] < 3; ++choice[window_]) all.push_back(choice);
    }
  }
  return all;
}

/// A choice as numbers. Two rows of 14 tokens.
class AttentionCase {
 public:
  static constexpr std::int64_t rows = 2, columns = 14, heads = 4, dim = 16;

  AttentionCase(Choice choice, at::Device device) : choice_(std::move(choice)), device_(device) {
    spec.heads = {heads, choice_[groups_] == 0 ? heads : heads / 2, dim, choice_[values_] == 0 ? 0 : dim / 2};
    if (choice_[window_] > 0) spec.window = choice_[window_] == 1 ? 3 : 7;
    if (choice_[cap_] > 0) spec.soft_cap = 0.4;  // below the largest scores
    if (choice_[scaled_] > 0) spec.scale = 0.11;
    spec.sinks = choice_[sinks_] > 0;
    spec.alibi = choice_[alibi_] > 0;
  }

  nn::AttentionSpec spec;

  std::size_t kind() const { return choice_[rows_]; }
  bool drops() const { return choice_[dropout_] > 0; }
  at::ScalarType type() const {
    const at::ScalarType types[] = {at::kDouble, at::kFloat, at::kBFloat16};
    return types[choice_[dtype_]];
  }
  std::string name() const {
    std::vector<std::string> parts{cat(type()), cat("window ", spec.window.value_or(0)),
                                   cat("scale ", spec.scale.value_or(0))};
    const auto add = [&](bool has, const char* what) {
      if (has) parts.emplace_back(what);
    };
    add(spec.soft_cap.has_value(), "cap");
    add(spec.sinks, "sinks");
    add(spec.alibi, "biases");
    add(spec.heads.keys < heads, "grouped");
    add(spec.heads.value_dim > 0, "narrow values");
    add(drops(), "dropout");
    add(kind() == packed_rows, "packed");
    add(kind() == shared_columns, "shared columns");
    add(kind() == after_a_cache, "after a cache");
    return join(parts);
  }

  /// q, k, v and sinks by name, numbers of bfloat16 in float64 on the CPU.
  std::map<std::string, at::Tensor> inputs() const {
    const auto some = [](const std::vector<std::int64_t>& shape, double phase) {
      const at::Tensor all = (at::arange(layout::numel(shape), at::kDouble) * 1.7 + phase).sin();
      return all.view(shape).to(at::kBFloat16).to(at::kDouble);
    };
    std::map<std::string, at::Tensor> all{{"q", some({rows, heads, columns, dim}, 0.1)},
                                          {"k", some({rows, spec.heads.keys, columns, dim}, 0.5)},
                                          {"v", some({rows, spec.heads.keys, columns, spec.heads.values()}, 0.9)}};
    if (spec.sinks) all["sinks"] = some({heads}, 0.4);
    return all;
  }
  /// [heads], as nn::Alibi has them.
  at::Tensor slopes() const { return at::exp2(-2 * at::arange(1, heads + 1, at::kDouble)); }

  /// Samples that are packed; else each row is one.
  std::vector<SamplePlace> places() const {
    if (kind() != packed_rows) return {{0, 0, columns}, {1, 0, columns}};
    return {{0, 0, 6}, {0, 6, 8}, {1, 1, 1}, {1, 2, 11}};
  }
  /// The batch of one sample in a row of its own.
  nn::Batch single(std::size_t sample) const {
    nn::Batch batch;
    batch.positions = at::arange(places()[sample].length, at::kLong).unsqueeze(0);
    batch.sample_ids = at::full({1}, 40 + static_cast<std::int64_t>(sample), at::kLong);
    batch.seed = 7;
    batch.step = 3;
    batch.training = drops();
    return batch;
  }
  /// The whole batch, on the device.
  nn::Batch batch() const;

 private:
  nn::Batch packed(nn::Batch batch) const;
  Choice choice_;
  at::Device device_;
};

inline nn::Batch AttentionCase::packed(nn::Batch batch) const {
  std::vector<std::int64_t> at_packed, at_alone, positions(rows * columns, 0), ids;
  const auto all = places();
  constexpr std::int64_t longest = 11;
  for (std::size_t i = 0; i < all.size(); ++i) {
    ids.push_back(40 + static_cast<std::int64_t>(i));
    for (std::int64_t t = 0; t < all[i].length; ++t) {
      const auto at = all[i].row * columns + all[i].begin + t;
      at_packed.push_back(at);
      at_alone.push_back(static_cast<std::int64_t>(i) * longest + t);
      positions[static_cast<std::size_t>(at)] = t;
    }
  }
  const auto numbers = [&](const std::vector<std::int64_t>& list) { return at::tensor(list, at::kLong).to(device_); };
  batch.positions = numbers(positions).view({rows, columns});
  batch.documents = nn::Documents{numbers(at_packed), numbers(at_alone), numbers(ids),
                                  static_cast<std::int64_t>(all.size()), longest};
  // Samples, and what is between them: columns 0 and 13 of the second row.
  batch.documents->bounds = at::tensor({0, 6, 14, 15, 16, 27, 28}, at::kInt).to(device_);
  return batch;
}

inline nn::Batch AttentionCase::batch() const {
  auto batch = single(0);
  batch.positions = at::arange(columns, at::TensorOptions(at::kLong).device(device_)).expand({rows, columns});
  batch.tokens = at::zeros({rows, columns}, at::TensorOptions(at::kLong).device(device_));
  batch.sample_ids = at::arange(40, 40 + rows, at::TensorOptions(at::kLong).device(device_));
  if (kind() == packed_rows) return packed(batch);
  if (kind() != shared_columns) return batch;
  nn::SequenceCut cut;
  cut.own = [](std::int64_t) { return std::vector<nn::ColumnRange>{{1, 4}, {9, 0}, {9, 5}}; };
  return nn::cut_columns(std::make_shared<const nn::Batch>(batch), cut);
}

/// One sample [1, heads, tokens, _] by the definition: a matrix of scores, and sinks as one more column of it.
inline at::Tensor defined_attention(const AttentionCase& c, std::size_t sample,
                                    const std::map<std::string, at::Tensor>& in, const nn::Dropout& dropout) {
  const auto& q = in.at("q");
  const auto groups = q.size(1) / in.at("k").size(1), tokens = q.size(2);
  const auto all = [&](const at::Tensor& x) { return x.repeat_interleave(groups, 1); };
  const auto place = at::arange(tokens, at::kLong);
  const auto distance = place.unsqueeze(1) - place.unsqueeze(0);
  auto scores = at::matmul(q, all(in.at("k")).mT()) * c.spec.scale.value_or(0.25);
  if (c.spec.soft_cap) scores = *c.spec.soft_cap * at::tanh(scores / *c.spec.soft_cap);
  if (c.spec.alibi) scores = scores - c.slopes().view({1, -1, 1, 1}) * distance;
  const auto hidden = distance.lt(0).logical_or(distance.ge(c.spec.window.value_or(tokens)));
  scores = scores.masked_fill(hidden, -std::numeric_limits<double>::infinity());
  if (c.spec.sinks) scores = at::cat({scores, in.at("sinks").view({1, -1, 1, 1}).expand({1, q.size(1), tokens, 1})}, 3);
  auto probabilities = at::softmax(scores, -1).narrow(3, 0, tokens);
  if (c.drops()) probabilities = dropout.on_attention(probabilities, c.single(sample));
  return at::matmul(probabilities, all(in.at("v")));
}

/// The same of all samples, where they stand; zeros elsewhere.
inline at::Tensor defined_attention(const AttentionCase& c, const std::map<std::string, at::Tensor>& in,
                                    const nn::Dropout& dropout) {
  auto out = at::zeros({c.rows, c.heads, c.columns, c.spec.heads.values()}, at::kDouble);
  const auto places = c.places();
  for (std::size_t i = 0; i < places.size(); ++i) {
    const auto& at = places[i];
    auto own = in;
    for (const char* name : {"q", "k", "v"})
      own[name] = in.at(name).narrow(0, at.row, 1).narrow(2, at.begin, at.length);
    const auto mine = defined_attention(c, i, own, dropout);
    const auto padded = at::constant_pad_nd(mine, {0, 0, at.begin, c.columns - at.begin - at.length});
    out = out + (at.row == 0 ? at::cat({padded, at::zeros_like(padded)}) : at::cat({at::zeros_like(padded), padded}));
  }
  return out;
}

}  // namespace capstan::testing
