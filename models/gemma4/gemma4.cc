// Gemma 4's text models (transformers 5's models/gemma4): norms by plain weights, also of values, local and global
// blocks with heads of their own, keys that are values, blocks that use earlier ones' keys and values, an embedding for
// each block, experts beside the feed-forward layer.
#include <capstan/base/json.h>
#include <capstan/model.h>

#include "options.h"

namespace gemma4 {
namespace {

namespace decoder = capstan::decoder;
using capstan::nn::Rotary;

std::string rope_parameters(const Gemma4Options& o) {
  using capstan::Json;
  const Json global{
      {"rope_type", "proportional"}, {"partial_rotary_factor", *o.turned_part}, {"rope_theta", o.rope_theta}};
  const Json local{{"rope_type", "default"}, {"rope_theta", *o.local_rope_theta}};
  return Json{{"full_attention", global}, {"sliding_attention", local}}.dump();
}

class Gemma4 : public decoder::Model {
 public:
  explicit Gemma4(capstan::config::Options<Gemma4Options> options) : options_(std::move(options)) {}

  void check(capstan::Diagnostics& diagnostics) const override {
    decoder::check_gemma(options_, diagnostics);
    check_options(options_, diagnostics);
  }

 protected:
  decoder::Spec spec() const override {
    const auto& o = *options_;
    auto made = o.spec();
    made.norm_factor = capstan::nn::RmsNorm::Factor::weight;
    made.head_norms = decoder::Spec::HeadNorms::each;
    made.attention.scale = 1;
    made.value_norm = true;
    made.output_factor = "layer_scalar";
    o.feed(made);
    if (o.routed_experts) add_experts(o, made);
    made.vary = [o, kinds = o.globals()](decoder::Spec& block, std::int64_t index) {
      set_attention(o, block, kinds[static_cast<std::size_t>(index)]);
      o.share(block, index, kinds);
    };
    return made;
  }

  void describe_files(capstan::layout::FileMap& map) const override {
    const auto& o = *options_;
    map.architecture = "Gemma4ForCausalLM";
    decoder::describe_gemma_files(o, map);
    map.left_out.insert(map.left_out.end(), {"rope_theta", "local_rope_theta", "turned_part"});
    if (!o.routed_experts) map.left_out.insert(map.left_out.end(), {"num_experts", "experts_per_token", "expert_dim"});
    map.more["rope_parameters"] = rope_parameters(o);
    decoder::describe_key_sharing_files(o, o.num_layers, map);
  }

 private:
  static void add_experts(const Gemma4Options& o, decoder::Spec& made) {
    auto& mixture = made.mixture;
    mixture.count = *o.num_experts;
    mixture.per_token = *o.experts_per_token;
    mixture.router.scaled = true;
    mixture.experts.activation = made.mlp.activation;
    mixture.beside_dense = true;
    mixture.dense_ff_dim = made.ff_dim;
    made.ff_dim = *o.expert_dim;
    made.names.router = "router.proj";
    made.names.experts = "experts";
    made.names.experts_together = true;
  }

  static void set_attention(const Gemma4Options& o, decoder::Spec& block, bool is_global) {
    if (!is_global) {
      block.rotary = Rotary(o.dim(), *o.local_rope_theta, {});
      return;
    }
    const auto keys = o.keys_are_values ? o.global_kv_heads.value_or(o.kv_heads()) : o.kv_heads();
    block.attention.window.reset();
    block.attention.heads = {o.num_heads, keys, o.global_head_dim};
    block.keys_are_values = o.keys_are_values;
    block.rotary = Rotary(o.global_head_dim, o.rope_theta, {}, {.turned = o.turned(), .of_whole_head = true});
  }

  capstan::config::Options<Gemma4Options> options_;
};

}  // namespace

CAPSTAN_MODEL(
    "gemma4", "0.1.0",
    "Gemma 4's text models: heads by kind of block, shared keys, inputs of blocks, experts beside a plain layer",
    Gemma4, Gemma4Options)

}  // namespace gemma4
