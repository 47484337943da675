#pragma once
#include <capstan/strategy.h>

#include <cstdint>
#include <memory>
#include <set>
#include <string>
#include <vector>

namespace tensor_parallel {

struct TensorParallelOptions {
  std::int64_t size = 1;
  bool sequence_parallel = false;
  bool vocab_parallel = true;
  static std::vector<capstan::plugin::Saving> savings();
  static void describe(capstan::config::OptionTable<TensorParallelOptions>& t);
};

/// Splits matrices, attention heads and the vocabulary over the ranks of the axis tp, which see the same samples
/// (Shoeybi et al. 2019, "Megatron-LM"); with sequence_parallel what lies between the split layers is split along the
/// sequence (Korthikanti et al. 2022, "Reducing Activation Recomputation in Large Transformer Models").
class TensorParallel : public capstan::strategy::Strategy {
 public:
  explicit TensorParallel(capstan::config::Options<TensorParallelOptions> options) : options_(std::move(options)) {}
  void mesh(capstan::layout::MeshSpec& spec) override;
  void claim(capstan::strategy::Claims& claims) const override;
  void check(const capstan::strategy::Facts& facts, capstan::Diagnostics& diagnostics) const override;
  void structure(std::vector<std::unique_ptr<capstan::nn::Unit>>& units) override;
  std::vector<std::string> notes() const override { return notes_; }
  void place(capstan::nn::Unit& unit, const capstan::strategy::Placement& placement) override;

 private:
  void refuse_without_effect(capstan::Diagnostics& diagnostics) const;

  capstan::config::Options<TensorParallelOptions> options_;
  std::vector<std::string> notes_;
  std::shared_ptr<std::set<std::string>> split_ = std::make_shared<std::set<std::string>>();  ///< records
};

}  // namespace tensor_parallel
