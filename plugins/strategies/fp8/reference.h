#pragma once
#include <cstdint>
#include <deque>
#include <string>
#include <utility>
#include <vector>

namespace fp8 {

/// A run's losses by step, as its metrics.jsonl has them; NaN where it has none. Throws Error that names file and line.
std::vector<double> losses_of(const std::string& file);

/// How far losses may be above those of a reference.
struct Band {
  std::string file;
  double width = 0.02;       ///< a share of the reference's
  std::int64_t window = 50;  ///< steps of which both means are taken
};

/// Ends a run whose mean loss has left the band. Steps that the reference lacks are not compared; a run that resumes
/// starts its window anew.
class LossBand {
 public:
  LossBand(Band band, std::vector<double> reference) : band_(std::move(band)), reference_(std::move(reference)) {}
  /// See strategy::LossHooks. Throws Error.
  void loss_known(std::int64_t step, double loss);

 private:
  Band band_;
  std::vector<double> reference_;
  std::deque<std::pair<double, double>> last_;  ///< this run's loss and the reference's
};

}  // namespace fp8
