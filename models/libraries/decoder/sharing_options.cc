#include <capstan/base/text.h>
#include <capstan/decoder/sharing_options.h>

namespace capstan::decoder {
namespace {

using K = KeySharingOptions;
using I = BlockInputOptions;

// The last block of this one's kind that has keys and values of its own; -1: there is none.
std::int64_t giver_of(std::int64_t block, std::int64_t first_sharing, const std::vector<bool>& kinds) {
  auto at = first_sharing - 1;
  while (at >= 0 && kinds[static_cast<std::size_t>(at)] != kinds[static_cast<std::size_t>(block)]) --at;
  return at;
}

}  // namespace

void KeySharingOptions::share(Spec& block, std::int64_t index, const std::vector<bool>& kinds) const {
  if (sharing_layers == 0) return;
  const auto first = first_sharing(static_cast<std::int64_t>(kinds.size()));
  const auto giver = giver_of(index, first, kinds);
  const bool reads = index >= first;
  if (reads) block.sharing.of = giver;
  block.sharing.gives = !reads && giver == index;
  // The earlier one of the two kinds' givers comes first.
  for (std::int64_t i = 0; i < giver; ++i) block.sharing.place += giver_of(i, first, kinds) == i ? 1 : 0;
  if (reads && double_wide_mlp) (block.mixture.count > 0 ? block.mixture.dense_ff_dim : block.ff_dim) *= 2;
}

void describe_key_sharing(config::OptionTable<KeySharingOptions> table) {
  table.add("sharing_layers", &K::sharing_layers)
      .min(0)
      .spelling("num_kv_shared_layers")
      .doc("this number of last blocks use keys and values of the last block of their kind before them");
  table.add("double_wide_mlp", &K::double_wide_mlp)
      .spelling("use_double_wide_mlp")
      .doc("feed-forward layers of those blocks are twice as wide");
}

void check_key_sharing(const config::Options<KeySharingOptions>& options, const std::vector<bool>& kinds,
                       Diagnostics& diagnostics) {
  const auto layers = static_cast<std::int64_t>(kinds.size()), first = options->first_sharing(layers);
  bool has_givers = first > 0;
  for (auto i = first; has_givers && i < layers; ++i) has_givers = giver_of(i, first, kinds) >= 0;
  if (has_givers) return;
  diagnostics.add(options.where(&K::sharing_layers),
                  cat("model.sharing_layers is ", options->sharing_layers,
                      ", but blocks of the same kinds with keys of their own do not stand before these"),
                  "use fewer, or other layer_types");
}

void describe_key_sharing_files(const KeySharingOptions& options, std::int64_t layers, layout::FileMap& map) {
  for (auto i = options.first_sharing(layers); i < layers; ++i) {
    for (const char* name : {"k_proj.", "v_proj.", "k_norm."})
      map.kept.push_back(cat("layers.", i, ".self_attn.", name));
  }
}

void BlockInputOptions::feed(Spec& spec) const {
  spec.inputs.width = inputs_width;
  spec.inputs.vocab_size = inputs_vocab_size;
}

void describe_block_inputs(config::OptionTable<BlockInputOptions> table) {
  table.add("inputs_width", &I::inputs_width)
      .min(0)
      .spelling("hidden_size_per_layer_input")
      .doc("width of the embedding that each block has of its own; 0: none");
  table.add("inputs_vocab_size", &I::inputs_vocab_size)
      .min(1)
      .spelling("vocab_size_per_layer_input")
      .doc("rows of the table of these embeddings; not below vocab_size");
}

void check_block_inputs(const config::Options<BlockInputOptions>& options, std::int64_t vocab_size,
                        Diagnostics& diagnostics) {
  if (options->inputs_width == 0 || options->inputs_vocab_size >= vocab_size) return;
  diagnostics.add(
      options.where(&I::inputs_vocab_size),
      cat("model.inputs_vocab_size ", options->inputs_vocab_size, " is below model.vocab_size ", vocab_size),
      "give each token an embedding");
}

}  // namespace capstan::decoder
