#pragma once
#include <capstan/base/error.h>
#include <capstan/base/export.h>
#include <capstan/layout/file_tensor.h>
#include <capstan/nn/adapter.h>
#include <capstan/nn/attention.h>
#include <capstan/nn/experts.h>
#include <capstan/nn/head.h>
#include <capstan/nn/layers.h>

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

CAPSTAN_BEGIN_NAMESPACE
namespace nn {

/// A link of the model's chain (embedding, a block, head): what is gathered, recomputed and reduced as one.
/// Says what it computes on logical shapes and nothing about how it is distributed.
class Unit {
 public:
  explicit Unit(std::string name);
  virtual ~Unit();
  Unit(const Unit&) = delete;
  Unit& operator=(const Unit&) = delete;

  /// `cache` is null except in generation. Must be a pure function of its inputs and weights: it is run again in
  /// backward when the unit is recomputed.
  virtual Hidden forward(Hidden hidden, const Batch& batch, KVCache* cache) = 0;

  const std::string& name() const { return name_; }
  const std::vector<WeightPtr>& weights() const { return weights_; }
  /// Layers and regions that strategies may look at and fill; pointers live as long as the unit.
  const std::vector<Linear*>& linears() const { return linears_; }
  const std::vector<Embedding*>& embeddings() const { return embeddings_; }
  const std::vector<VocabularyHead*>& heads() const { return heads_; }
  const std::vector<Experts*>& experts() const { return experts_; }
  const std::vector<Alibi*>& alibis() const { return alibis_; }
  const std::vector<RotaryAttention*>& attentions() const { return attentions_; }
  const std::vector<Dropout*>& dropouts() const { return dropouts_; }
  const std::vector<Router*>& routers() const { return routers_; }
  const std::vector<LoadBalance*>& balances() const { return balances_; }
  const std::vector<Region*>& regions() const { return regions_; }
  bool trainable() const;

  /// Adds an adapter's weights to the unit's; for strategies, in structure().
  void adapt(Adapter adapter);
  const std::vector<Adapter>& adapters() const { return adapters_; }
  /// The batch of the forward that runs, or whose backward does: for what strategies put into slots. Set by the runner.
  const Batch& batch() const { return batch_; }
  void set_batch(const Batch& batch) { batch_ = batch; }

 protected:
  /// Each registers a part and returns it.
  WeightPtr add(WeightPtr weight);
  WeightPtr add_record(const std::string& name, std::vector<std::int64_t> shape, layout::Init init, bool decay);
  /// Records of these names that are one weight, side by side along dimension 0.
  WeightPtr add_group(std::vector<layout::Param> records);
  void expose(Linear& linear) { linears_.push_back(&linear); }
  void expose(Embedding& embedding) { embeddings_.push_back(&embedding); }
  void expose(VocabularyHead& head) { heads_.push_back(&head); }
  void expose(Experts& experts) { experts_.push_back(&experts); }
  void expose(Alibi& alibi) { alibis_.push_back(&alibi); }
  void expose(RotaryAttention& attention);
  void expose(GatedMlp& mlp);
  void expose(Dropout& dropout) { dropouts_.push_back(&dropout); }
  void expose(Router& router);
  void expose(LoadBalance& balance) { balances_.push_back(&balance); }
  void expose(Region& region) { regions_.push_back(&region); }

 private:
  std::string name_;
  std::vector<WeightPtr> weights_;
  std::vector<Linear*> linears_;
  std::vector<Embedding*> embeddings_;
  std::vector<VocabularyHead*> heads_;
  std::vector<Experts*> experts_;
  std::vector<Alibi*> alibis_;
  std::vector<RotaryAttention*> attentions_;
  std::vector<Dropout*> dropouts_;
  std::vector<Router*> routers_;
  std::vector<LoadBalance*> balances_;
  std::vector<Region*> regions_;
  std::vector<Adapter> adapters_;
  Batch batch_;
};

/// Sizes that the rest of the host needs to know.
struct ModelFacts {
  std::int64_t vocab_size = 0;
  std::int64_t max_positions = 0;
  std::int64_t hidden_size = 0;
  std::int64_t num_layers = 0;
  std::int64_t num_heads = 0;
  std::int64_t num_kv_heads = 0;       ///< heads of keys and values; 0: num_heads
  std::int64_t num_experts = 0;        ///< in each layer of experts; 0: there is none
  std::int64_t experts_per_token = 0;  ///< that compute each token
  bool attention_dropout = false;      ///< attention takes the unfused path
};

/// A model plugin: made from its options, it checks them, then builds its units as records without memory.
class Model {
 public:
  virtual ~Model();
  /// Sizes that don't fit, all of them, with the option's file and line.
  virtual void check(Diagnostics& diagnostics) const = 0;
  virtual ModelFacts facts() const = 0;
  /// The chain of units, in order, made anew at each call (`check` counts parameters); allocates nothing.
  virtual std::vector<std::unique_ptr<Unit>> build() const = 0;
  /// Floating-point operations of forward and backward for one token in a sequence of this length.
  virtual double flops_per_token(std::int64_t sequence_length) const = 0;
  /// Where the records stand in a Hugging Face folder of this architecture.
  virtual layout::FileMap file_map() const = 0;
};

}  // namespace nn
CAPSTAN_END_NAMESPACE
