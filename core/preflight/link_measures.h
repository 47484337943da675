#pragma once
#include <capstan/base/export.h>
#include <capstan/comm/communicator.h>

#include <functional>
#include <string>
#include <vector>

#include "preflight/report.h"

CAPSTAN_BEGIN_NAMESPACE
namespace preflight {

/// Measures what moves between ranks, over groups of its own on `device`. Every rank calls the same methods in the same
/// order and gets the same results.
class LinkMeasures {
 public:
  /// Called by all ranks alike between parts that take about a second; may throw.
  using Between = std::function<void()>;
  LinkMeasures(
      comm::Communicator& communicator, c10::Device device, Between between = [] {});

  /// The mean over `iterations` calls behind `warmup`, of the slowest rank; then once more with values that are
  /// checked. "all-reduce", "reduce-scatter" or "all-gather" of about `bytes`, float32.
  Bandwidth collective(const std::string& operation, std::int64_t bytes, std::int64_t warmup, std::int64_t iterations);
  /// Every pair, as many at a time as there are ranks for; of more than 64 ranks each meets 63 others.
  std::vector<PairBandwidth> pairs(std::int64_t bytes);
  /// An all-reduce on one rank of each node, where there are several, then on all. Ranks that cannot allocate it are
  /// the gate's problem.
  Gate gate(std::int64_t bytes, std::int64_t warmup, std::int64_t iterations);

 private:
  /// `group`: null on ranks outside of it, which come along for `between`.
  Bandwidth measure(comm::Group* group, const std::string& operation, std::int64_t bytes, std::int64_t warmup,
                    std::int64_t iterations);
  /// Calls repeat(n) until `iterations` are done, with `between` behind each part; the seconds that this took without
  /// that.
  double in_parts(std::int64_t iterations, std::int64_t bytes, comm::Group* group,
                  const std::function<void(std::int64_t)>& repeat);
  void synchronize() const;
  /// What rank 0 of the world has, on all.
  Bandwidth shared(const Bandwidth& mine);

  comm::Communicator& communicator_;
  const c10::Device device_;
  const Between between_;
  std::shared_ptr<comm::Group> world_;
};

/// The partner of `rank` of `size` in round r of size - 1 (size even) or size (odd) rounds in which all pairs meet
/// once: one stands still, the others go around. A rank without a partner gets itself.
int partner(int rank, int size, int round);

}  // namespace preflight
CAPSTAN_END_NAMESPACE
