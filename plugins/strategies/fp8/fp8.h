#pragma once
#include <capstan/strategy.h>

#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "multiplier.h"
#include "options.h"

namespace fp8 {

/// Multiplies chosen layers' matrices in 8 bits (Micikevicius et al. 2022), with scales made anew from each operand.
/// Weights, gradients and optimizer state stay what they are.
class Fp8 : public capstan::strategy::Strategy {
 public:
  explicit Fp8(capstan::config::Options<Fp8Options> options) : options_(std::move(options)) {}
  void claim(capstan::strategy::Claims& claims) const override;
  void check(const capstan::strategy::Facts& facts, capstan::Diagnostics& faults) const override;
  /// Throws Error for targets that no block has, and where nothing is left to multiply.
  void structure(std::vector<std::unique_ptr<capstan::nn::Unit>>& units) override;
  void place(capstan::nn::Unit& unit, const capstan::strategy::Placement& placement) override;
  std::vector<std::string> notes() const override { return notes_; }

 private:
  using Units = std::vector<std::unique_ptr<capstan::nn::Unit>>;
  bool is_target(const std::string& role) const;
  void refuse_unknown(const Units& units, capstan::Diagnostics& faults) const;
  bool take(const capstan::nn::Layer& layer, const std::string& role, const capstan::nn::WeightPtr& weight);
  std::shared_ptr<const Multiplier> multiplier(const capstan::nn::Layer& layer, capstan::nn::WeightPtr weight,
                                               const capstan::strategy::Placement& placement) const;
  void say_what_was_taken(std::size_t blocks);

  capstan::config::Options<Fp8Options> options_;
  std::vector<const capstan::nn::Unit*> blocks_;  ///< whose layers are looked at
  std::map<std::string, std::int64_t> taken_;     ///< how many of each role
  std::map<std::string, std::int64_t> odd_;       ///< "linear_fc1 [37 x 12]", whose sizes are no multiples of 16
  std::vector<std::string> notes_;
};

}  // namespace fp8
