#pragma once
#include <capstan/strategy.h>

#include <memory>
#include <string>
#include <vector>

namespace recompute {

struct RecomputeOptions {
  std::int64_t every = 1;
  std::vector<std::string> regions;
  static std::vector<capstan::plugin::Saving> savings() {
    return {{capstan::plugin::Saving::By::recomputing, "recompute each unit", {"every=1", "regions=[]"}}};
  }
  static void describe(capstan::config::OptionTable<RecomputeOptions>& t);
};

/// Chooses which units the runner recomputes, or fills the ports around regions. Results, gathers and reductions stay
/// the same.
class Recompute : public capstan::strategy::Strategy {
 public:
  explicit Recompute(capstan::config::Options<RecomputeOptions> options) : options_(std::move(options)) {}
  void claim(capstan::strategy::Claims& claims) const override;
  /// Throws Error for regions that no unit has, and when nothing would be recomputed.
  void structure(std::vector<std::unique_ptr<capstan::nn::Unit>>& units) override;
  void place(capstan::nn::Unit& unit, const capstan::strategy::Placement& placement) override;
  bool recompute(const capstan::nn::Unit& unit, std::size_t index) override;

 private:
  void check_regions(const std::vector<std::string>& known, capstan::Diagnostics& diagnostics) const;

  capstan::config::Options<RecomputeOptions> options_;
  std::vector<const capstan::nn::Unit*> chosen_;
};

}  // namespace recompute
