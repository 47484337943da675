#pragma once
#include <capstan/base/export.h>
#include <capstan/nn/recompute_context.h>

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

CAPSTAN_BEGIN_NAMESPACE
namespace nn {

/// What flows from unit to unit and carries gradient.
struct Hidden {
  at::Tensor states;  ///< [B, S, hidden]; after the head: what the batch's pass.output says
  /// What units add to on the way (routers: their load). After the head: auxiliary losses (0-dim), each already times
  /// its coefficient, to be divided by the step's micro-steps and added to the loss; the data ranks' add up.
  std::vector<at::Tensor> sums;
  /// In training, one tensor for each layer of experts so far: how many tokens (no padding) each expert computes [E],
  /// float64, without gradient.
  std::vector<at::Tensor> expert_tokens;
  /// What units hand to later ones beside the states, with gradient: the keys and values that later blocks use too, or
  /// an embedding for each block. The units of a model agree on its order. They travel between stages as states do.
  std::vector<at::Tensor> carried = {};
};

/// Rows that hold several sequences one after another (packing): where each token of a sequence stands in the batch
/// [B, S] and where it would stand if every one had a row of its own, [count, longest], as without packing. What looks
/// at more than one token, or depends on the sequence, works there.
struct Documents {
  at::Tensor packed;      ///< [N] int64: where the tokens of all samples are in the B·S positions
  at::Tensor alone;       ///< [N] int64: where they are in the count·longest positions
  at::Tensor sample_ids;  ///< [count] int64
  std::int64_t count = 0;
  std::int64_t longest = 0;
  /// [segments + 1] int32: where each sample begins among the B·S positions in their order, and each stretch of
  /// padding, which is cut so that none is longer than `longest`; then B·S. What attends to segments without taking
  /// rows apart reads it. Undefined: all work apart.
  at::Tensor bounds = {};
  at::Tensor sequences = {};  ///< [count] int64: which of the batch's sequences (BatchSamples) each of them is

  /// x [B, S, ...] -> [count, longest, ...], zeros after each sample.
  at::Tensor apart(const at::Tensor& x) const;
  /// x [count, longest, ...] -> [rows, cols, ...], zeros where no sample is.
  at::Tensor together(const at::Tensor& x, std::int64_t rows, std::int64_t cols) const;
};

/// A field that the data declares (data::FieldSpec), in a batch.
struct Field {
  std::string name;
  at::Tensor values;  ///< int64 or float32: [B, S] as labels are, [sequences] or [samples]
};

/// The samples that a batch's sequences make: sequence q is part of sample q / per_sample.
struct BatchSamples {
  std::int64_t count = 0;  ///< samples; rows that are not packed have empty ones too
  std::int64_t per_sample = 1;
  std::vector<Field> fields;

  std::int64_t sequences() const { return count * per_sample; }
};

/// What the head makes of its input.
enum class HeadOutput {
  loss_sum,           ///< the sum of -log softmax[label] over all labels (0-dim)
  log_probabilities,  ///< log softmax[label] of each of the batch's loss_rows [M], 0 where there is no label
  last_logits,        ///< the logits of each row's position `last` [B, vocabulary]
  states,             ///< what the head's matrix is to be multiplied with, of each of loss_rows [M, hidden]
  function,           ///< what pass.function makes of these and the matrix
  values,             ///< numbers that are no words, of each of loss_rows [M, values]: a reward, a class's logit
};

struct HeadInput;  // nn/head.h

/// Says which of the forwards of a micro-batch this one is.
struct Pass {
  HeadOutput output = HeadOutput::loss_sum;
  bool adapters = true;  ///< what strategies add to the layers acts; without it: the base model
  /// What is measured on the way counts (fp8's magnitudes, experts' loads, figures). False: this forward changes
  /// nothing that stays, as a reference's must not.
  bool measured = true;
  std::function<at::Tensor(const HeadInput&)> function = {};  ///< for HeadOutput::function
  at::Tensor baselines = {};  ///< [B] float64: those of objective::Plan, for the pass with the gradient
};

/// Some of an attention layer's heads.
struct HeadRange {
  std::int64_t first = 0;
  std::int64_t all = 0;  ///< how many there are
};

/// Columns of a batch's rows that follow each other.
struct ColumnRange {
  std::int64_t begin = 0;
  std::int64_t length = 0;
};

/// How the ranks along the axis cp share the columns of a batch's rows. Without functions: each rank has all of them.
struct SequenceCut {
  /// This rank's columns of rows that have that many, ascending; each column is one rank's.
  std::function<std::vector<ColumnRange>(std::int64_t columns)> own;
  /// Each of these ranks' tensor -> their sum, whose gradient is the sum of theirs.
  std::function<at::Tensor(const at::Tensor&)> sum;
  /// This rank gives what is a whole sample's, such as the loss of a pair; the others give nothing.
  bool represents_sample = true;
};

struct Batch;

/// What a batch is a part of, where ranks share the columns of its rows.
struct SequencePart {
  std::shared_ptr<const Batch> whole;  ///< the batch with all columns, its documents too
  std::vector<ColumnRange> own;        ///< this rank's columns of it
  at::Tensor columns;                  ///< [S] int64: the same as a list
  SequenceCut cut;
};

/// What every unit may read and none changes. All tensors are on the run's device. Where ranks share the columns of
/// rows, S is the number of this rank's, all that is [B, S] is theirs, and what looks at other tokens asks `part`.
struct Batch {
  at::Tensor tokens;      ///< [B, S] int64
  at::Tensor labels;      ///< [B, S] int64, the token to predict at each position, -100 = none. Undefined: the
                          ///< head's output is last_logits
  at::Tensor loss_rows;   ///< [M] int64, ascending, without duplicates, into the B·S positions: all that have a label,
                          ///< and some that have none. The head needs no logits of others. Undefined: all positions
  at::Tensor positions;   ///< [B, S] int64, position of each token in its sequence
  at::Tensor last;        ///< [B] int64, index into S; only for last_logits
  at::Tensor real;        ///< [B, S] bool: tokens of sequences, not padding. Undefined: all are
  at::Tensor sample_ids;  ///< [B] int64, run-wide id of each row's sequence: what dropout masks are keyed by
  std::optional<Documents> documents;  ///< the sequences of packed rows; none: a row is one sequence
  BatchSamples samples;                ///< where labels are defined
  Pass pass;
  std::uint64_t seed = 0;
  std::int64_t step = 0;
  /// [1] int64: the step, for dropout, in place of `step` where a forward is recorded once and run in many steps.
  at::Tensor device_step;
  bool training = false;                     ///< dropout acts
  std::shared_ptr<const SequencePart> part;  ///< null: all columns are here
  /// The heads that attention's core gets, of those that the layer has on this rank. None: all of them.
  std::optional<HeadRange> heads;
  /// What this forward of the unit keeps for when it is run again in backward. Null: it runs once.
  std::shared_ptr<RecomputeContext> kept;

  /// What attention reads of packed rows taken apart: positions and sample ids with every sequence in a row of its own.
  Batch apart() const;
  /// The batch with all columns, in this forward.
  Batch whole() const;
  /// x [B, all columns, ...] -> this rank's columns of it, and back, with zeros in the others.
  at::Tensor own_columns(const at::Tensor& x) const;
  at::Tensor among_all_columns(const at::Tensor& x) const;
  /// The values of a field. Throws Error where the data has no such field.
  const at::Tensor& field(std::string_view name) const;
  /// [M] int64: the sequence that each position with logits (loss_rows) is part of. Positions of padding are said to be
  /// part of some sequence; they have no label.
  at::Tensor label_sequences() const;
  /// The sums of values [M] over each sequence's positions, [sequences], those of all ranks that share them. Gradients
  /// flow through it; the order of the sum is always the same.
  at::Tensor sum_by_sequence(const at::Tensor& values) const;
  /// [M] bool: whether the label of each position with logits (loss_rows) is its sequence's last, which is where a
  /// sequence has a single value: its position has seen all tokens but the one that is its label.
  at::Tensor last_labels() const;
  /// [samples] bool: whether there is one in that place that this rank represents. Of ranks that share samples' tokens
  /// one does.
  at::Tensor has_sample() const;
};

/// This rank's columns of a batch, as `cut` shares them. All positions have logits.
Batch cut_columns(std::shared_ptr<const Batch> whole, const SequenceCut& cut);

/// Keys and values of the tokens so far, for generation. One per batch of rows; every attention layer has its
/// entry, made on first use. Row b holds lengths[b] valid positions; rows may differ.
class KVCache {
 public:
  explicit KVCache(std::int64_t capacity) : capacity_(capacity) {}
  struct Entry {
    at::Tensor keys;    ///< [B, kv heads, capacity, head dim]
    at::Tensor values;  ///< [B, kv heads, capacity, value dim]
  };
  /// Writes k, v [B, kv heads, S, head or value dim] at positions [B, S] of layer `index`; returns the whole entry.
  const Entry& put(std::size_t index, const at::Tensor& k, const at::Tensor& v, const at::Tensor& positions);
  /// What a layer without keys and values keeps of the tokens so far, such as a recurrent state: tensors [B, ...].
  /// While prompts are put, those of the rows that are put; they replace what the rows had.
  void put_state(std::size_t index, const std::vector<at::Tensor>& state);
  /// False: nothing was put for the layer, as on a rank without prompts.
  bool has_state(std::size_t index) const { return index < states_.size() && !states_[index].empty(); }
  /// All rows'; the layer may change them in place once the cache is filled. There is one.
  const std::vector<at::Tensor>& state(std::size_t index) const { return states_.at(index); }
  std::int64_t capacity() const { return capacity_; }
  /// False while prompts are put: attention is then plain causal.
  bool is_filled() const { return filled_; }
  void set_filled();
  /// Until set_filled(), prompts are put into these rows [n] int64, all different, of the `count` that it has: k and v
  /// have n rows, at positions from 0 on. What the rows had is forgotten; the others keep theirs.
  void begin_rows(const at::Tensor& rows, std::int64_t count);

 private:
  std::int64_t capacity_;
  bool filled_ = false;
  std::vector<Entry> entries_;
  std::vector<std::vector<at::Tensor>> states_;
  at::Tensor rows_;  // prompts are put into these; undefined: all
  std::int64_t count_ = 0;
};

}  // namespace nn
CAPSTAN_END_NAMESPACE
