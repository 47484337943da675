#pragma once
// Blocks that use an earlier block's keys and values, and inputs that each block has of its own: what goes from unit to
// unit beside the states (nn::Hidden::carried). Inputs of blocks come first, then each giver's keys and values.
#include <capstan/decoder/decoder.h>

#include <memory>
#include <optional>
#include <string>

#include "records.h"

namespace capstan::decoder {

/// Attention whose keys and values are another block's too. `s` is the block's.
class SharingAttention {
 public:
  SharingAttention(nn::Attention& attention, const Spec& s);
  /// Normed states [B, S, hidden] -> what is added to the residual. A giver adds its keys and values [B, S, key heads,
  /// dim] to `carried`, a reader finds them there.
  at::Tensor forward(const at::Tensor& x, const nn::Batch& batch, nn::KVCache* cache,
                     std::vector<at::Tensor>& carried) const;

 private:
  ops::RotaryHeads given(const at::Tensor& fused, const nn::Batch& batch) const;
  ops::RotaryHeads read(const at::Tensor& product, const nn::Batch& batch,
                        const std::vector<at::Tensor>& carried) const;
  nn::Attention& attention_;
  KeySharing sharing_;
  std::optional<nn::Rotary> rotary_;
  std::size_t place_;  // of the keys in what is carried
};

/// Makes the inputs of all blocks in the embedding.
class BlockInputs {
 public:
  BlockInputs(nn::Layer& parent, const Spec& s);
  /// Scaled embeddings [B, S, hidden] -> [B, S, blocks, width].
  at::Tensor forward(const at::Tensor& x, const nn::Batch& batch) const;

 private:
  std::int64_t width_;
  double scale_;
  nn::Embedding table_;
  nn::Linear projection_;
  nn::RmsNorm norm_;
};

/// What a block adds to its states of its own input.
class BlockInput {
 public:
  BlockInput(nn::Layer& parent, const Spec& s, std::int64_t block, const std::string& records);
  at::Tensor forward(const at::Tensor& x, const std::vector<at::Tensor>& carried) const;

 private:
  std::int64_t block_;
  nn::Activation activation_;
  nn::Linear gate_;
  nn::Linear projection_;
  nn::RmsNorm norm_;
};

/// What a block has besides its layers, or nothing.
struct CarriedParts {
  std::optional<SharingAttention> sharing;
  std::optional<BlockInput> input;
  nn::WeightPtr factor;  ///< of its output

  /// The states that leave the block, of those that its layers make.
  at::Tensor completed(const nn::Hidden& hidden) const;
};

}  // namespace capstan::decoder
