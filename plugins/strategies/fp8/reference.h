#pragma once
#include <cstdint>
#include <deque>
#include <map>
#include <string>
#include <utility>

namespace fp8 {

/// How far losses may be above those of a reference.
struct Band {
  std::string file;
  double width = 0.02;       ///< a share of the reference's
  std::int64_t window = 50;  ///< steps of which both means are taken
};

using Losses = std::map<std::int64_t, double>;

/// The reference's losses by step, as its metrics.jsonl has them; only finite ones. Throws Error that names
/// file and line, or says that they are too few for the band's window.
Losses losses_of(const Band& band);

/// Ends a run whose mean loss has left the band. Steps that the reference lacks are not compared; a run that resumes
/// starts its window again.
class LossBand {
 public:
  LossBand(Band band, Losses reference) : band_(std::move(band)), reference_(std::move(reference)) {}
  /// See strategy::LossHooks. Throws Error.
  void loss_known(std::int64_t step, double loss);

 private:
  Band band_;
  Losses reference_;
  std::deque<std::pair<double, double>> last_;  ///< this run's loss and the reference's
};

}  // namespace fp8
