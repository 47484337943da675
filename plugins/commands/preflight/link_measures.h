#pragma once
#include <capstan/comm/communicator.h>

#include <functional>
#include <string>
#include <vector>

#include "report.h"

namespace preflight {

/// Measures communication between ranks, over its own groups on `device`. Every rank calls the same methods in the same
/// order and gets the same results.
class LinkMeasures {
 public:
  /// Called by all ranks between parts that take about a second; may throw.
  using Between = std::function<void()>;
  LinkMeasures(
      capstan::comm::Communicator& communicator, c10::Device device, Between between = [] {});

  /// The slowest rank's mean over `iterations` calls after `warmup`; then one more call whose values are checked.
  /// "all-reduce", "reduce-scatter" or "all-gather" with about `bytes`, float32.
  Bandwidth collective(const std::string& operation, std::int64_t bytes, std::int64_t warmup, std::int64_t iterations);
  /// Every pair, as many at a time as the ranks allow; with more than 64 ranks each is paired with 63 others.
  std::vector<PairBandwidth> pairs(std::int64_t bytes);
  /// An all-reduce on one rank of each node, if there are several nodes, then on all. Gate::problem names ranks that
  /// cannot allocate it.
  Gate gate(std::int64_t bytes, std::int64_t warmup, std::int64_t iterations);

 private:
  /// `group`: null on ranks outside of it, which only call `between`.
  Bandwidth measure(capstan::comm::Group* group, const std::string& operation, std::int64_t bytes, std::int64_t warmup,
                    std::int64_t iterations);
  /// Calls repeat(n) until `iterations` are done, with `between` after each part; returns the seconds without
  /// `between`.
  double in_parts(std::int64_t iterations, std::int64_t bytes, capstan::comm::Group* group,
                  const std::function<void(std::int64_t)>& repeat);
  void synchronize() const;
  /// Rank 0's value, on all ranks.
  Bandwidth shared(const Bandwidth& mine);

  capstan::comm::Communicator& communicator_;
  const c10::Device device_;
  const Between between_;
  std::shared_ptr<capstan::comm::Group> world_;
};

/// The partner of `rank` of `size` in round r of size - 1 (size even) or size (odd) rounds that form each pair once
/// (round-robin: one rank is fixed, the others rotate). A rank without a partner gets itself.
int partner(int rank, int size, int round);

}  // namespace preflight
