#pragma once
#include <capstan/base/export.h>
#include <capstan/layout/file_tensor.h>
#include <capstan/nn/model.h>

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

CAPSTAN_BEGIN_NAMESPACE
namespace decoder {

/// Those of attention through latents, beside Names::qkv's first and Names::projection.
struct LatentNames {
  std::string query_down = "self_attn.q_a_proj";
  std::string query_norm = "self_attn.q_a_layernorm";
  std::string query_up = "self_attn.q_b_proj";
  std::string keys_down = "self_attn.kv_a_proj_with_mqa";
  std::string keys_norm = "self_attn.kv_a_layernorm";
  std::string keys_up = "self_attn.kv_b_proj";
};

/// What the records of a decoder are called: the modules of its Hugging Face class. A record is the module's name and
/// ".weight" or ".bias"; those of a block have `block` and its number before them. The defaults are Llama's.
struct Names {
  std::string tokens = "model.embed_tokens";
  std::string positions;       ///< table of learned positions
  std::string embedding_norm;  ///< empty: there is none
  std::string block = "model.layers.";
  std::string attention_norm = "input_layernorm";  ///< before attention, as norm_before says
  std::string mlp_norm = "post_attention_layernorm";
  std::string attention_post_norm;  ///< after it, as norm_after says
  std::string mlp_post_norm;
  /// Three modules; or one, which holds q, k and v of each head in turn: a record [heads, 3, dim, hidden].
  std::vector<std::string> qkv{"self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj"};
  std::string projection = "self_attn.o_proj";
  std::string query_norm = "self_attn.q_norm";
  std::string key_norm = "self_attn.k_norm";
  LatentNames latent;
  std::string sinks = "self_attn.sinks";                        ///< the record itself, as Spec::attention has sinks
  std::vector<std::string> up{"mlp.gate_proj", "mlp.up_proj"};  ///< gate first, where it is gated
  std::string down = "mlp.down_proj";
  /// Modules of a block that files hold as one, rows after rows: {"mlp.gate_up_proj", {"mlp.gate_proj",
  /// "mlp.up_proj"}}.
  std::map<std::string, std::vector<std::string>> fused;
  std::string router = "mlp.gate";
  std::string router_correction = "e_score_correction_bias";  ///< of the router, as RouterSpec::correction says
  std::string router_scale = "router.scale";                  ///< the record itself, as RouterSpec::scaled says
  std::string expert_scale = "router.per_expert_scale";       ///< the same
  /// Experts are two records of each block, ".gate_up_proj" and ".down_proj", and two more of biases,
  /// ".gate_up_proj_bias" and ".down_proj_bias". In files they are three tensors of each expert: its gate, its up and
  /// its down. Without such names a record is one tensor, with what a product sums over before its features and each
  /// feature's gate beside its up: [experts, hidden, 2 ff] and [experts, ff, hidden].
  std::string experts = "mlp.experts";
  std::vector<std::string> expert_parts{"gate_proj", "up_proj", "down_proj"};
  bool experts_together = false;  ///< files have a tensor a record: [experts, 2 ff, hidden], gates first; the other's
  /// These norms are after the plain layer, before the experts and after them, as MixtureSpec::beside_dense says.
  std::string dense_post_norm = "post_feedforward_layernorm_1";
  std::string experts_norm = "pre_feedforward_layernorm_2";
  std::string experts_post_norm = "post_feedforward_layernorm_2";
  std::string shared = "mlp.shared_experts";           ///< as MixtureSpec::shared_dim says; its parts: expert_parts
  std::string shared_gate = "mlp.shared_expert_gate";  ///< as MixtureSpec::shared_gate says
  std::string norm = "model.norm";
  std::string head = "lm_head";      ///< the causal-LM class's; with the prefix where the head is in the bare model
  std::string value_head = "score";  ///< the head of values: that of the class for classifying sequences
  /// What the causal-LM class puts before every name but the head's, and the bare model does not.
  std::string prefix = "model.";
};

/// How routers choose experts, as nn::RouterKind has it.
struct RouterSpec {
  bool sigmoid = false;
  std::int64_t groups = 1;
  std::int64_t groups_per_token = 1;
  double scale = 1;         ///< of a token's weights
  bool correction = false;  ///< there is a correction of their choice
  /// Their logits are of states over their root mean square, times a record [hidden] over the root of hidden, and a
  /// record [experts] multiplies the weights (Gemma 4).
  bool scaled = false;
};

/// The feed-forward layers as mixtures; count 0: they are none.
struct MixtureSpec {
  std::int64_t count = 0;
  std::int64_t per_token = 2;
  bool sum_to_one = true;  ///< a token's weights are divided by their sum
  RouterSpec router = {};
  bool router_bias = false;  ///< in the routers' logits
  bool expert_biases = false;
  nn::ExpertsKind experts = {};
  bool balanced = false;  ///< the routers' balancing loss is trained on, times balance_weight
  double balance_weight = 0;
  /// Blocks whose feed-forward layer is a plain one, of this width.
  std::set<std::int64_t> dense_blocks = {};
  std::int64_t dense_ff_dim = 0;
  /// Width of the layer that computes every token beside the experts, whose results are added; 0: there is none.
  std::int64_t shared_dim = 0;
  bool shared_gate = false;  ///< that layer's result is multiplied by the sigmoid of one more product (Qwen 2 MoE)
  /// Each block with experts has a plain layer of dense_ff_dim too: norm(dense(norm(x))) + norm(experts(norm(x))), with
  /// norms of their own; routers see x itself (Gemma 4).
  bool beside_dense = false;

  bool is_in(std::int64_t block) const { return count > 0 && !dense_blocks.contains(block); }
};

/// Keys and values of one block in others too (Gemma 4). Such blocks have no nn::Region "attention": what they hand on
/// must live as long as its readers.
struct KeySharing {
  bool gives = false;                   ///< later blocks use this one's keys and values
  std::optional<std::int64_t> of = {};  ///< has no keys and values of its own, but those of this earlier block
  std::size_t place = 0;                ///< how many givers stand before this one, or before the one that it reads
};

/// An embedding for each block of its own, which its states gate (Gemma 4's per-layer inputs); width 0: there is none.
struct BlockInputsSpec {
  std::int64_t width = 0;
  std::int64_t vocab_size = 0;  ///< rows of their table [vocab_size, blocks · width]
  std::string tokens = "model.embed_tokens_per_layer";
  std::string model_projection = "model.per_layer_model_projection";
  std::string projection_norm = "model.per_layer_projection_norm";
  std::string gate = "per_layer_input_gate";  ///< of a block, as the following
  std::string projection = "per_layer_projection";
  std::string norm = "post_per_layer_input_norm";
};

/// Multi-head latent attention (DeepSeek-AI 2024), whose heads are those of Spec::attention, with as many key heads as
/// query heads, and whose positions are Spec::rotary's, of the numbers that turn.
struct LatentSpec {
  std::int64_t query_rank = 0;  ///< width of the queries' latent; 0: they are made from the states
  std::int64_t key_rank = 0;    ///< width of the latent of keys and values
  std::int64_t turned = 0;      ///< the last numbers of a query and of a key, which turn
  double turned_factor = 1;     ///< multiplies what has turned
  double norm_epsilon = 1e-6;   ///< of the latents' norms
  bool bias = false;            ///< in the products that make latents
};

/// A layer of another kind in attention's place: a model's own, which mixes the tokens of a sequence.
class TokenMixer : public nn::Layer {
 public:
  using nn::Layer::Layer;
  /// Normed states [B, S, hidden] -> what is added to the residual, [B, S, hidden]. A pure function of these and the
  /// weights, which may run again in backward. `cache` is null except in generation.
  virtual at::Tensor forward(const at::Tensor& x, const nn::Batch& batch, nn::KVCache* cache) const = 0;
  /// Floating-point operations of its forward for one token, besides two for each weight of its matrices.
  virtual double more_flops_per_token() const { return 0; }
};

/// A feed-forward layer of another kind: a model's own, which a block has in place of the one that its Spec describes.
class FeedForward : public nn::Layer {
 public:
  using nn::Layer::Layer;
  /// Normed states [B, S, hidden] -> what is added to the residual, [B, S, hidden]. A pure function of these and the
  /// weights, which may run again in backward.
  virtual at::Tensor forward(const at::Tensor& x) const = 0;
};

/// What stands between the two products of a plain layer: a model's own function, in the place of the Spec's.
class Activation : public nn::Layer {
 public:
  using nn::Layer::Layer;
  /// [..., features] -> the same shape, of each element by itself: ranks may have some of the features, so that
  /// weights of its own are nn::Use::heads. A pure function of these and the weights, which may run again in backward.
  virtual at::Tensor forward(const at::Tensor& x) const = 0;
};

/// A norm of another kind: a model's own, in the place of one that its Spec describes.
class Norm : public nn::Layer {
 public:
  using nn::Layer::Layer;
  /// States [B, S, hidden] -> [B, S, hidden], of each position by itself: ranks may have some of them. A pure function
  /// of these and the weights, which may run again in backward.
  virtual at::Tensor forward(const at::Tensor& x) const = 0;
};

/// What a decoder is: a token table, blocks of attention and feed-forward layer, each with a residual, and a head. Made
/// from nn's layers, so that every strategy can place it, without a word about ranks here. The defaults are Llama's.
struct Spec {
  enum class Norm { layer, rms };
  enum class HeadNorms {
    none,
    each,  ///< RMS norms of q and k by head: a vector [dim] for all heads
    all    ///< RMS norms over the features of all heads together: vectors [heads · dim]
  };

  std::int64_t vocab_size = 0;
  std::int64_t hidden_size = 0;
  std::int64_t num_layers = 0;
  std::int64_t max_positions = 0;
  std::int64_t ff_dim = 0;      ///< an expert's, where feed-forward layers are mixtures (but for dense_blocks)
  nn::AttentionSpec attention;  ///< of all blocks, but for the windows of some; positions: see below

  Norm norm = Norm::rms;
  double norm_epsilon = 1e-6;
  bool norm_before = true;           ///< x + f(norm(x)) …
  bool norm_after = false;           ///< … x + norm(f(x)); both: x + norm(f(norm(x)))
  bool residual_after_norm = false;  ///< norm(x) + f(norm(x))
  bool parallel = false;             ///< x + f(norm1(x)) + g(norm2(x)): both layers read the block's input
  bool one_norm = false;             ///< where they are parallel, x + f(norm1(x)) + g(norm1(x)) (Cohere)
  bool norm_bias = true;             ///< of layer norms
  nn::RmsNorm::Factor norm_factor = nn::RmsNorm::Factor::weight;  ///< of norms with a bias and RMS norms

  /// Positions: rotary, or linear biases (attention.alibi), or learned (Names::positions).
  std::optional<nn::Rotary> rotary;
  std::optional<nn::QueryScaling> query_scaling = {};  ///< queries grow with their position (Ministral 3)

  std::optional<LatentSpec> latent;  ///< none: q, k and v are made from the states
  bool qkv_bias = false;
  bool projection_bias = false;
  bool output_gate = false;  ///< as nn::Attention::Kind says: q's module holds each head's query and gate
  HeadNorms head_norms = HeadNorms::none;
  bool norms_after_rotary = false;  ///< q and k turn before those norms (HunYuan)
  bool keys_are_values = false;     ///< as nn::Attention::Kind's: there is no v in names.qkv
  bool value_norm = false;          ///< as nn::Attention::Kind's
  KeySharing sharing = {};          ///< of a block, by `vary`
  BlockInputsSpec inputs = {};
  std::string output_factor = {};  ///< record [1] of each block, stored and never trained, that multiplies its output
  std::set<std::int64_t> blocks_without_window = {};  ///< they see all positions although attention.window is set
  /// They have no rotary positions although `rotary` is set, and the usual attention.scale (YaRN's comes with those).
  std::set<std::int64_t> blocks_without_rotary = {};

  nn::Mlp::Kind mlp;
  bool mlp_bias = false;
  MixtureSpec mixture;
  /// Makes what is between the products of a plain layer that is not gated, as the block's child; null: as `mlp` says.
  /// `records` is what the names of its records begin with ("model.layers.3.").
  std::function<std::unique_ptr<decoder::Activation>(nn::Layer& parent, const std::string& records)> activation = {};
  /// Makes the feed-forward layer of a block, as the block's child; null: the one that is described here. `block` is
  /// its number, and `records` what the names of its records begin with ("model.layers.3."). A record has that name in
  /// files, without the prefix that all get.
  std::function<std::unique_ptr<FeedForward>(nn::Layer& parent, std::int64_t block, const std::string& records)>
      feed_forward = {};
  /// The same of a layer in attention's place. `block` is also its entry in the cache.
  std::function<std::unique_ptr<TokenMixer>(nn::Layer& parent, std::int64_t block, const std::string& records)>
      token_mixer = {};
  /// The same of a norm of the states, as the child `name` of a block ("norm1", "norm2", "post_norm1", "post_norm2";
  /// with a plain layer beside experts "post_norm_dense", "norm_experts", "post_norm_experts" too), of the embedding or
  /// of the head ("norm"). `module` is its entry in `names`, after a block's prefix: its records
  /// are module + ".weight" and whatever else it has.
  std::function<std::unique_ptr<decoder::Norm>(nn::Layer& parent, const std::string& name, const std::string& module)>
      own_norm = {};
  /// Blocks that are not all alike: changes a copy of this Spec to what block `block` is (its attention, positions,
  /// norms, feed-forward layer). Null: they are alike.
  std::function<void(Spec& spec, std::int64_t block)> vary = {};

  std::int64_t head_values = 0;  ///< the head gives as many numbers of each position; 0: it gives words
  bool tied_head = false;
  bool head_bias = false;           ///< a bias [vocabulary] beside a head of words (Phi 1 and 2, GPT-J)
  double embedding_multiplier = 1;  ///< multiplies what the table gives
  bool rounds_multiplier = false;   ///< embedding_multiplier is first rounded to the table's dtype (Gemma)
  double residual_multiplier = 1;   ///< multiplies what a layer adds to its residual
  double logits_multiplier = 1;
  std::optional<double> logits_cap = {};  ///< logits are cap · tanh(product / cap) (Gemma 2)

  double embedding_dropout = 0;
  double attention_dropout = 0;  ///< on its probabilities
  double dropout = 0;            ///< on what a layer adds to its residual

  double init_std = 0.02;
  std::optional<double> residual_init_std;  ///< for products that write to the residual; init_std when not set
  Names names;

  /// What a block is: this, varied.
  Spec of_block(std::int64_t block) const;
};

/// The units: "embedding", "blocks.0" …, "head".
std::vector<std::unique_ptr<nn::Unit>> units(const Spec& spec);
/// Every record under its own name, without the prefix, which all get but the head, unless it has it; experts as
/// stacks, a fused q, k and v as one matrix, Names::fused as parts. A head of values may be absent, and a head of words
/// is then ignored.
layout::FileMap files(const Spec& spec);

/// A model that is such a decoder: what is left to it are its options, their check, and what a config.json of its
/// family says besides.
class Model : public nn::Model {
 public:
  ~Model() override;
  nn::ModelFacts facts() const override;
  std::vector<std::unique_ptr<nn::Unit>> build() const override { return units(spec()); }
  /// Forward and backward: 6 per weight of every product that a token takes part in (its experts, router and head
  /// included, tables not) and 6·K·heads·(dim + value dim) a layer for attention, K being the positions that a token
  /// sees on average: S / 2, or fewer in a window (Chowdhery et al. 2022, appendix B, with the causal half).
  double flops_per_token(std::int64_t sequence_length) const override;
  layout::FileMap file_map() const override;

 protected:
  virtual Spec spec() const = 0;
  /// Fills in `architecture`, and whatever is not as files() says. A tied head's copy in files must be equal to the
  /// table.
  virtual void describe_files(layout::FileMap& map) const = 0;
};

}  // namespace decoder
CAPSTAN_END_NAMESPACE
