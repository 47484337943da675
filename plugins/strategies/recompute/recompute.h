#pragma once
#include <capstan/strategy.h>
#include <capstan/strategy/keep_input.h>

#include <memory>
#include <string>
#include <vector>

#include "host_copies.h"

namespace recompute {

struct RecomputeOptions {
  std::int64_t every = 1;
  std::vector<std::string> regions;
  bool keep_attention = false;
  double offload = 0;
  std::int64_t tile_tokens = 0;
  bool automatic = false;
  static std::vector<capstan::plugin::Saving> savings();
  static void describe(capstan::config::OptionTable<RecomputeOptions>& t);
};

/// Chooses which units the runner recomputes, or fills the ports around regions. Results, gathers and reductions stay
/// the same; with tiles, gradients of weights up to the order of their sums.
class Recompute : public capstan::strategy::Strategy {
 public:
  explicit Recompute(capstan::config::Options<RecomputeOptions> options) : options_(std::move(options)) {}
  void claim(capstan::strategy::Claims& claims) const override;
  /// `auto` that was not decided, or stands next to what it decides, is a fault.
  void check(const capstan::strategy::Facts& facts, capstan::Diagnostics& diagnostics) const override;
  /// Throws Error for regions that no unit has, for attention to keep where there is none, for tiles where no unit has
  /// what can be cut into them, and when nothing would be recomputed.
  void structure(std::vector<std::unique_ptr<capstan::nn::Unit>>& units) override;
  std::vector<std::string> notes() const override { return notes_; }
  void place(capstan::nn::Unit& unit, const capstan::strategy::Placement& placement) override;
  bool recompute(const capstan::nn::Unit& unit, std::size_t index) override;
  /// Host memory of what is offloaded.
  std::vector<capstan::layout::Footprint> footprint(const capstan::strategy::Facts& facts) const override;

 private:
  /// Calls visit(region) for what is kept: null for a unit that is recomputed as a whole.
  template <class Visit>
  void each_kept(capstan::nn::Unit& unit, const Visit& visit) const;
  bool is_named(const capstan::nn::Region& region) const;
  bool is_tiled(const capstan::nn::Unit& unit, const capstan::nn::Region& region) const;
  void check_attention(const capstan::strategy::Facts& facts, capstan::Diagnostics& diagnostics) const;
  void check_regions(const std::vector<std::string>& known, capstan::Diagnostics& diagnostics) const;
  void check_tiles(const std::vector<std::unique_ptr<capstan::nn::Unit>>& units, capstan::Diagnostics& diagnostics);
  void note_units_without_regions();
  void choose_offloaded(const std::vector<std::unique_ptr<capstan::nn::Unit>>& units);
  capstan::strategy::KeepInput keep_of(const capstan::nn::Layer& kept) const;

  capstan::config::Options<RecomputeOptions> options_;
  std::vector<const capstan::nn::Unit*> chosen_;
  std::vector<const capstan::nn::Layer*> offloaded_;  ///< units and regions whose inputs wait in host memory
  std::vector<std::unique_ptr<capstan::strategy::InputKeeper>> keepers_;
  std::vector<std::string> notes_;
  HostCopies copies_;
  HostCopies results_;  ///< what attention computed: backward asks for it after its unit's input
};

}  // namespace recompute
