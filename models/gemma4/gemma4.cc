// Gemma 4's dense text model (transformers 5's models/gemma4): norms by plain weights, also of values, local and global
// blocks with heads of their own, keys that are values, blocks that use earlier ones' keys and values, an embedding for
// each block.
#include <capstan/base/json.h>
#include <capstan/base/text.h>
#include <capstan/decoder/gemma_options.h>
#include <capstan/model.h>

#include <cmath>

namespace gemma4 {
namespace {

namespace decoder = capstan::decoder;
using capstan::cat;
using Use = capstan::config::FileKey::Use;

const std::string global_rope = "rope_parameters.full_attention.", local_rope = "rope_parameters.sliding_attention.";

struct Gemma4Options : decoder::GemmaOptions {
  Gemma4Options() {
    global_every = 6;
    rope_theta = 1e6;
  }
  std::string model_type = "gemma4_text";
  std::optional<double> local_rope_theta;
  std::optional<double> turned_part;
  std::int64_t global_head_dim = 512;
  std::optional<std::int64_t> global_kv_heads;
  bool keys_are_values = false;
  std::int64_t sharing_layers = 0;
  bool double_wide_mlp = false;
  std::int64_t inputs_width = 0;
  std::int64_t inputs_vocab_size = 262144;

  /// The last block is global, whatever layer_types says.
  bool is_global(std::int64_t block) const { return block + 1 == num_layers || !is_local(block); }
  std::int64_t first_sharing() const { return num_layers - sharing_layers; }
  /// The last block of this one's kind that has keys and values of its own; -1: there is none.
  std::int64_t giver_of(std::int64_t block) const {
    auto at = first_sharing() - 1;
    while (at >= 0 && is_global(at) != is_global(block)) --at;
    return at;
  }
  decoder::KeySharing sharing(std::int64_t block) const;
  /// How many of a global head's numbers turn.
  std::int64_t turned() const {
    return 2 *
           static_cast<std::int64_t>(std::floor(turned_part.value_or(1) * static_cast<double>(global_head_dim) / 2));
  }
  static void describe(capstan::config::OptionTable<Gemma4Options>& t);
  static capstan::config::Presets file_defaults();
  static std::vector<capstan::config::FileKeys> file_keys();
};

decoder::KeySharing Gemma4Options::sharing(std::int64_t block) const {
  decoder::KeySharing made;
  if (sharing_layers == 0) return made;
  const auto giver = giver_of(block);
  const bool reads = block >= first_sharing();
  if (reads) made.of = giver;
  made.gives = !reads && giver == block;
  // The earlier one of the two kinds' givers comes first.
  for (std::int64_t i = 0; i < giver; ++i) made.place += giver_of(i) == i ? 1 : 0;
  return made;
}

void Gemma4Options::describe(capstan::config::OptionTable<Gemma4Options>& t) {
  using O = Gemma4Options;
  t.add("model_type", &O::model_type).choices({"gemma4_text"}).doc("family of the config.json");
  t.add("rope_theta", &O::rope_theta)
      .above(0)
      .spelling(global_rope + "rope_theta")
      .doc("base of the rotary frequencies of global blocks, which are those of whole heads");
  t.add("turned_part", &O::turned_part)
      .above(0)
      .max(1)
      .spelling(global_rope + "partial_rotary_factor")
      .doc("required: how much of a global block's heads turns; published models have 0.25");
  t.add("local_rope_theta", &O::local_rope_theta)
      .above(0)
      .spelling(local_rope + "rope_theta")
      .doc("required: base of the rotary frequencies of local blocks; published models have 1e4");
  t.add("global_head_dim", &O::global_head_dim)
      .min(2)
      .doc("width of a global block's heads; head_dim is local blocks'");
  t.add("global_kv_heads", &O::global_kv_heads)
      .min(1)
      .spelling("num_global_key_value_heads")
      .doc("key heads of global blocks whose keys are values; num_kv_heads when not set");
  t.add("keys_are_values", &O::keys_are_values)
      .spelling("attention_k_eq_v")
      .doc("values of global blocks are their keys before norm and rotation");
  t.add("sharing_layers", &O::sharing_layers)
      .min(0)
      .spelling("num_kv_shared_layers")
      .doc("this number of last blocks use keys and values of the last block of their kind before them");
  t.add("double_wide_mlp", &O::double_wide_mlp)
      .spelling("use_double_wide_mlp")
      .doc("feed-forward layers of those blocks are twice as wide");
  t.add("inputs_width", &O::inputs_width)
      .min(0)
      .spelling("hidden_size_per_layer_input")
      .doc("width of the embedding that each block has of its own; 0: none");
  t.add("inputs_vocab_size", &O::inputs_vocab_size)
      .min(1)
      .spelling("vocab_size_per_layer_input")
      .doc("rows of the table of these embeddings; not below vocab_size");
  decoder::describe_gemma(t);
}

capstan::config::Presets Gemma4Options::file_defaults() {
  return {{"gemma4_text",
           decoder::gemma_defaults({.theta = 1e6, .length = 131072}, {{"num_kv_heads", std::int64_t{4}},
                                                                      {"sliding_window", std::int64_t{512}},
                                                                      {"global_head_dim", std::int64_t{512}},
                                                                      {"inputs_width", std::int64_t{256}},
                                                                      {"inputs_vocab_size", std::int64_t{262144}}})},
          {"gemma4", {{"tie_word_embeddings", true}}}};
}

std::vector<capstan::config::FileKeys> Gemma4Options::file_keys() {
  auto keys = decoder::own_names({"local_rope_theta", "turned_part", "global_kv_heads", "keys_are_values",
                                  "sharing_layers", "double_wide_mlp", "inputs_width", "inputs_vocab_size"});
  keys.push_back({"enable_moe_block", Use::only, "Gemma 4's mixtures are not supported: take a dense one", {"false"}});
  keys.push_back({"use_bidirectional_attention", Use::only, "such models are not supported", {"false", "\"vision\""}});
  keys.push_back({local_rope + "rope_type", Use::only, "local blocks turn by plain frequencies", {"\"default\""}});
  keys.push_back({global_rope + "rope_type", Use::only, "global blocks turn by those of heads", {"\"proportional\""}});
  for (const auto& more :
       {decoder::neutral_keys({"num_experts", "top_k_experts", "moe_intermediate_size"}, "only mixtures have experts"),
        decoder::gemma_keys(), decoder::rotary_keys({"partial_rotary_factor"}, global_rope)})
    keys.insert(keys.end(), more.begin(), more.end());
  return decoder::file_keys({decoder::family_keys("gemma4_text", std::move(keys)),
                             decoder::wrapper_keys("gemma4", "Gemma4ForConditionalGeneration")});
}

class Gemma4 : public decoder::Model {
 public:
  explicit Gemma4(capstan::config::Options<Gemma4Options> options) : options_(std::move(options)) {}

  void check(capstan::Diagnostics& diagnostics) const override;

 protected:
  decoder::Spec spec() const override {
    const auto& o = *options_;
    auto made = o.spec();
    made.norm_factor = capstan::nn::RmsNorm::Factor::weight;
    made.head_norms = decoder::Spec::HeadNorms::each;
    made.attention.scale = 1;
    made.value_norm = true;
    made.inputs.width = o.inputs_width;
    made.inputs.vocab_size = o.inputs_vocab_size;
    made.output_factor = "layer_scalar";
    made.vary = [o](decoder::Spec& block, std::int64_t index) { vary(o, block, index); };
    return made;
  }

  void describe_files(capstan::layout::FileMap& map) const override {
    map.architecture = "Gemma4ForCausalLM";
    decoder::describe_gemma_files(*options_, map);
    map.left_out.insert(map.left_out.end(), {"rope_theta", "local_rope_theta", "turned_part"});
    map.more["rope_parameters"] = rope_parameters(*options_);
    // Published files have them in blocks that share keys and values, where nothing reads them.
    for (auto i = options_->first_sharing(); i < options_->num_layers; ++i) {
      for (const char* name : {"k_proj.", "v_proj.", "k_norm."})
        map.kept.push_back(cat("layers.", i, ".self_attn.", name));
    }
  }

 private:
  static void vary(const Gemma4Options& o, decoder::Spec& block, std::int64_t index) {
    using capstan::nn::Rotary;
    if (o.is_global(index)) {
      const auto keys = o.keys_are_values ? o.global_kv_heads.value_or(o.kv_heads()) : o.kv_heads();
      block.attention.window.reset();
      block.attention.heads = {o.num_heads, keys, o.global_head_dim};
      block.keys_are_values = o.keys_are_values;
      block.rotary = Rotary(o.global_head_dim, o.rope_theta, {}, {.turned = o.turned(), .of_whole_head = true});
    } else {
      block.rotary = Rotary(o.dim(), *o.local_rope_theta, {});
    }
    block.sharing = o.sharing(index);
    if (block.sharing.of && o.double_wide_mlp) block.ff_dim *= 2;
  }

  static std::string rope_parameters(const Gemma4Options& o) {
    using capstan::Json;
    const Json global{
        {"rope_type", "proportional"}, {"partial_rotary_factor", *o.turned_part}, {"rope_theta", o.rope_theta}};
    const Json local{{"rope_type", "default"}, {"rope_theta", *o.local_rope_theta}};
    return Json{{"full_attention", global}, {"sliding_attention", local}}.dump();
  }

  capstan::config::Options<Gemma4Options> options_;
};

void Gemma4::check(capstan::Diagnostics& diagnostics) const {
  using O = Gemma4Options;
  const auto& o = *options_;
  decoder::check_gemma(options_, diagnostics);
  const auto refuse = [&](auto member, const std::string& what, const std::string& fix) {
    diagnostics.add(options_.where(member), what, fix);
  };
  if (!o.turned_part) refuse(&O::turned_part, "model.turned_part is not set", "set it, to 0.25 in published models");
  if (!o.local_rope_theta)
    refuse(&O::local_rope_theta, "model.local_rope_theta is not set", "set it, to 1e4 in published models");
  if (o.global_head_dim % 2 != 0 || o.global_head_dim > 512 || o.turned() < 2) {
    refuse(&O::global_head_dim,
           cat("global attention heads of ", o.global_head_dim, " numbers, with ", o.turned(),
               " that turn, are not supported"),
           "use an even global_head_dim of at most 512, and a larger turned_part");
  }
  if (const auto keys = o.global_kv_heads.value_or(1); o.num_heads % keys != 0) {
    refuse(&O::global_kv_heads,
           cat("model.num_heads ", o.num_heads, " is not divisible by model.global_kv_heads ", keys),
           "each key head serves the same number of query heads");
  }
  if (o.inputs_width > 0 && o.inputs_vocab_size < o.vocab_size) {
    refuse(&O::inputs_vocab_size,
           cat("model.inputs_vocab_size ", o.inputs_vocab_size, " is below model.vocab_size ", o.vocab_size),
           "give each token an embedding");
  }
  bool has_givers = o.sharing_layers < o.num_layers;
  for (auto i = o.first_sharing(); has_givers && i < o.num_layers; ++i) has_givers = o.giver_of(i) >= 0;
  if (!has_givers) {
    refuse(&O::sharing_layers,
           cat("model.sharing_layers is ", o.sharing_layers,
               ", but blocks of the same kinds with keys of their own do not stand before these"),
           "use fewer, or other layer_types");
  }
}

}  // namespace

CAPSTAN_MODEL("gemma4", "0.1.0", "Gemma 4's dense text model: heads by kind of block, shared keys, inputs of blocks",
              Gemma4, Gemma4Options)

}  // namespace gemma4
