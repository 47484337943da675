#pragma once
#include <capstan/base/error.h>
#include <capstan/base/export.h>
#include <capstan/config/options.h>
#include <capstan/decoder/decoder.h>

#include <cstdint>
#include <vector>

CAPSTAN_BEGIN_NAMESPACE
namespace decoder {

// Options of what goes from block to block beside the states: keys and values of earlier blocks (KeySharing), and an
// embedding for each block (BlockInputsSpec), as Gemma 4 has them. A model's options derive from these and from others.

/// The last blocks use keys and values of the last block of their kind before them.
struct KeySharingOptions {
  std::int64_t sharing_layers = 0;
  bool double_wide_mlp = false;

  std::int64_t first_sharing(std::int64_t layers) const { return layers - sharing_layers; }
  /// Says it of block `index`, whose spec it is. `kinds`: each block's; blocks of one kind have equal heads.
  void share(Spec& block, std::int64_t index, const std::vector<bool>& kinds) const;
};

void describe_key_sharing(config::OptionTable<KeySharingOptions> table);
/// Blocks whose keys no block before them has.
void check_key_sharing(const config::Options<KeySharingOptions>& options, const std::vector<bool>& kinds,
                       Diagnostics& diagnostics);
/// Published files have keys of blocks that share others', where nothing reads them: they are kept.
void describe_key_sharing_files(const KeySharingOptions& options, std::int64_t layers, layout::FileMap& map);

struct BlockInputOptions {
  std::int64_t inputs_width = 0;
  std::int64_t inputs_vocab_size = 262144;

  void feed(Spec& spec) const;
};

void describe_block_inputs(config::OptionTable<BlockInputOptions> table);
/// A table with fewer rows than the model has words.
void check_block_inputs(const config::Options<BlockInputOptions>& options, std::int64_t vocab_size,
                        Diagnostics& diagnostics);

}  // namespace decoder
CAPSTAN_END_NAMESPACE
