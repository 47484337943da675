#pragma once
#include <capstan/strategy.h>

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

namespace expert_parallel {

struct ExpertParallelOptions {
  std::int64_t size = 1;
  double memory_factor = 1.5;
  static std::vector<capstan::plugin::Saving> savings();
  static void describe(capstan::config::OptionTable<ExpertParallelOptions>& t);
};

/// Gives each rank along `ep` some of the experts of every layer: their records are cut along the expert dimension and
/// summed over the other data axes only. All else is data-parallel over `ep`. Tokens travel to their experts and back.
class ExpertParallel : public capstan::strategy::Strategy {
 public:
  explicit ExpertParallel(capstan::config::Options<ExpertParallelOptions> options) : options_(std::move(options)) {}
  void mesh(capstan::layout::MeshSpec& spec) override;
  void claim(capstan::strategy::Claims& claims) const override;
  void check(const capstan::strategy::Facts& facts, capstan::Diagnostics& diagnostics) const override;
  void structure(std::vector<std::unique_ptr<capstan::nn::Unit>>& units) override;
  std::vector<std::string> notes() const override { return notes_; }
  void place(capstan::nn::Unit& unit, const capstan::strategy::Placement& placement) override;
  std::vector<capstan::layout::Footprint> footprint(const capstan::strategy::Facts& facts) const override;

 private:
  capstan::config::Options<ExpertParallelOptions> options_;
  std::vector<std::string> notes_;
};

}  // namespace expert_parallel
