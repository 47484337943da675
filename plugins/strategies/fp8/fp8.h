#pragma once
#include <capstan/strategy.h>

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "feed_forward.h"
#include "multiplier.h"

namespace fp8 {

struct Fp8Options {
  std::string recipe = "rowwise";
  std::vector<std::string> targets{"all-linear"};
  std::int64_t skip_first = 0;
  std::int64_t skip_last = 0;
  std::string backward = "e4m3";
  std::string accumulate = "fast";
  std::string store = "bf16";
  std::string gather = "bf16";
  std::optional<std::string> reference;
  double band = 0.02;
  std::int64_t window = 50;
  static void describe(capstan::config::OptionTable<Fp8Options>& t);
};

/// Multiplies chosen layers' matrices in 8 bits (Micikevicius et al. 2022), with scales made from each operand.
/// Weights, gradients and optimizer state stay what they are.
class Fp8 : public capstan::strategy::Strategy {
 public:
  explicit Fp8(capstan::config::Options<Fp8Options> options) : options_(std::move(options)) {}
  void claim(capstan::strategy::Claims& claims) const override;
  void check(const capstan::strategy::Facts& facts, capstan::Diagnostics& faults) const override;
  /// Throws Error for targets that no block has, and where nothing is left to multiply.
  void structure(std::vector<std::unique_ptr<capstan::nn::Unit>>& units) override;
  /// Throws Error for a weight that is stored in 8 bits and trained: other strategies' structure() has said by now.
  void place(capstan::nn::Unit& unit, const capstan::strategy::Placement& placement) override;
  std::vector<std::string> notes() const override { return notes_; }
  std::unique_ptr<capstan::strategy::StepHooks> step() override;
  /// The bytes of frozen weights, which are kept in 8 bits too, or of their scales.
  std::vector<capstan::layout::Footprint> footprint(const capstan::strategy::Facts& facts) const override;

 private:
  using Units = std::vector<std::unique_ptr<capstan::nn::Unit>>;
  using How = std::shared_ptr<const Multiplier>;
  void choose(const capstan::nn::Layer& layer, const std::string& role, const capstan::nn::WeightPtr& weight);
  /// Where the user has set an option, or else the table.
  template <class M>
  std::string place_of(M Fp8Options::*member) const {
    return options_.is_set(member) ? options_.where(member) : options_.section().origin.text();
  }
  bool stores() const { return options_->store != "bf16"; }
  bool stores_both() const { return options_->store == "fp8_both"; }
  bool gathers() const { return options_->gather == "fp8"; }
  void check_reference(capstan::Diagnostics& faults) const;
  void set_codecs(capstan::nn::Weight& weight, bool experts) const;
  void check_blocks(capstan::Diagnostics& faults) const;
  void refuse_trained(const capstan::nn::Unit& unit) const;
  void refuse_misfits(const capstan::strategy::Facts& facts) const;
  void refuse_cut_tiles(const capstan::strategy::Facts& facts) const;
  Scaling scaling(bool experts) const;
  std::string sizes_text() const;  ///< what sizes are multiples of
  void say_what_was_taken(std::int64_t blocks, std::int64_t all);
  /// The same one for a weight each time; null where it was not chosen.
  How multiplier(const capstan::nn::Layer& layer, const capstan::nn::WeightPtr& weight,
                 const capstan::strategy::Placement& placement);
  void place_linear(capstan::nn::Linear& linear, const capstan::strategy::Placement& placement);
  void place_experts(capstan::nn::Experts& experts, const capstan::strategy::Placement& placement);

  capstan::config::Options<Fp8Options> options_;
  std::shared_ptr<Counts> counts_ = std::make_shared<Counts>();
  std::set<capstan::nn::WeightPtr> chosen_;            ///< whose products are in 8 bits
  std::map<capstan::nn::WeightPtr, How> multipliers_;  ///< theirs, once they are placed
  std::map<std::string, std::int64_t> taken_;          ///< how many of each role
  std::map<std::string, std::int64_t> odd_;            ///< "linear_fc1 [37 x 12]", whose sizes do not fit
  std::vector<std::string> notes_;
};

}  // namespace fp8
