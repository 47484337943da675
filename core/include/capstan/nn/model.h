#pragma once
#include <capstan/base/error.h>
#include <capstan/base/export.h>
#include <capstan/layout/file_tensor.h>
#include <capstan/nn/adapter.h>
#include <capstan/nn/attention.h>
#include <capstan/nn/experts.h>
#include <capstan/nn/head.h>
#include <capstan/nn/layer.h>
#include <capstan/nn/layers.h>

#include <algorithm>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

CAPSTAN_BEGIN_NAMESPACE
namespace nn {

/// A link of the model's chain (embedding, a block, head): what is gathered, recomputed and reduced as one.
/// Says what it computes on logical shapes and nothing about how it is distributed. The root of a tree of layers, which
/// are its members or their members: unit.each<Linear>([&](Linear& linear) { … }).
class Unit : public Layer {
 public:
  explicit Unit(std::string name);
  ~Unit() override;

  /// `cache` is null except in generation. Must be a pure function of its inputs and weights: it is run again in
  /// backward when the unit is recomputed.
  virtual Hidden forward(Hidden hidden, const Batch& batch, KVCache* cache) = 0;

  bool trainable() const;
  /// Weights that were added to the unit and that no layer owns: nothing says how ranks may share them.
  std::vector<WeightPtr> undeclared() const;

  /// Adds an adapter's weights to the unit's; for strategies, in structure().
  void adapt(Adapter adapter);
  const std::vector<Adapter>& adapters() const { return adapters_; }
  /// The batch of the forward that runs, or whose backward does: for what strategies put into ports. Set by the runner.
  const Batch& batch() const { return batch_; }
  void set_batch(const Batch& batch) { batch_ = batch; }

 protected:
  /// Each adds a weight to the unit and returns it. A layer that is then made of it owns it, and declares how ranks may
  /// share it. What the unit's own code uses instead needs its `use` here, or is refused where the unit is split: heads
  /// for what acts on each attention head alike (a norm of q, [head dim]), states for what acts on hidden states.
  WeightPtr add(WeightPtr weight, Use use = Use::undeclared);
  WeightPtr add_record(const std::string& name, std::vector<std::int64_t> shape, layout::Init init, bool decay,
                       Use use = Use::undeclared);
  /// Records of these names that are one weight, side by side along dimension 0.
  WeightPtr add_group(std::vector<layout::Param> records);

 private:
  std::vector<Adapter> adapters_;
  Batch batch_;
};

/// The records of a unit, or of all units, each once and in their order.
std::vector<layout::Param*> parameters(const Unit& unit);
std::vector<layout::Param*> parameters(const std::vector<std::unique_ptr<Unit>>& units);
std::vector<layout::Param*> parameters(const std::vector<Unit*>& units);

/// Layers with weights of their own whose kind is none of nn's: a strategy leaves them whole and says so.
std::vector<const Layer*> layers_of_other_kinds(const Unit& unit);
/// A line for Strategy::notes() on each of those layers: "<strategy> does not know layer …".
std::vector<std::string> notes_on_other_kinds(const std::vector<std::unique_ptr<Unit>>& units,
                                              const std::string& strategy);
/// Throws Error that names a weight which the unit uses without a layer, where others of the unit are split over ranks
/// that see the same samples: what it adds to the gradient would be wrong in silence. Called once all are placed.
void refuse_undeclared(const Unit& unit);

/// Sizes that the rest of the host needs to know.
struct ModelFacts {
  std::int64_t vocab_size = 0;
  std::int64_t max_positions = 0;
  std::int64_t hidden_size = 0;
  std::int64_t num_layers = 0;
  std::int64_t num_heads = 0;
  std::int64_t num_kv_heads = 0;       ///< heads of keys and values; 0: num_heads
  std::int64_t num_experts = 0;        ///< in each layer of experts; 0: there is none
  std::int64_t experts_per_token = 0;  ///< experts that compute each token
  bool attention_dropout = false;      ///< attention takes the unfused path
  /// What its head gives: a run that asks for anything else is refused before it begins.
  std::vector<HeadOutput> outputs = VocabularyHead::outputs();

  bool gives(HeadOutput output) const { return std::find(outputs.begin(), outputs.end(), output) != outputs.end(); }
};

/// A model plugin: made from its options, it checks them, then builds its units as records without memory.
class Model {
 public:
  virtual ~Model();
  /// Sizes that don't fit, all of them, with the option's file and line.
  virtual void check(Diagnostics& diagnostics) const = 0;
  virtual ModelFacts facts() const = 0;
  /// The chain of units, in order. Each call makes new ones (`check` counts parameters) and allocates nothing.
  virtual std::vector<std::unique_ptr<Unit>> build() const = 0;
  /// Floating-point operations of forward and backward for one token in a sequence of this length.
  virtual double flops_per_token(std::int64_t sequence_length) const = 0;
  /// Where the records stand in a Hugging Face folder of this architecture.
  virtual layout::FileMap file_map() const = 0;
};

}  // namespace nn
CAPSTAN_END_NAMESPACE
