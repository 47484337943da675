#pragma once
#include <capstan/nn/codec.h>

#include <string>

#include "quantise.h"

namespace fp8 {

/// A trained weight that ranks gather in 8 bits: e4m3 with one scale, the very numbers that each rank would make of a
/// whole weight that it had gathered in 16. So what is learnt is the same bit for bit.
class Sent : public capstan::nn::Codec {
 public:
  /// Does anybody gather it? Known once the shard engine has planned.
  bool arrives() const { return bytes_.defined(); }
  /// The weight [out, in] as forward multiplies it; its transpose [in, out], in memory of its own, as backward does.
  Quantised rows() const;
  Quantised columns() const;

  Capabilities capabilities() const override { return {.gathers = true}; }
  std::string name() const override { return "fp8"; }
  std::string fix() const override { return R"(set strategy.fp8.gather = "bf16")"; }
  at::Tensor scales_of(const at::Tensor& largest) const override;
  void encode_to_gather(const at::Tensor& values, const at::Tensor& largest, const at::Tensor& bytes) const override;
  void bind_gathered(at::Tensor bytes, at::Tensor scale) override;

 private:
  at::Tensor bytes_;        ///< [out, in] uint8
  at::Tensor scale_;        ///< [1]
  at::Tensor row_ones_;     ///< [out], for the transposing kernel, which can rescale
  at::Tensor column_ones_;  ///< [in]
};

}  // namespace fp8
