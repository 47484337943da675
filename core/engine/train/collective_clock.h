#pragma once
#include <c10/core/Device.h>
#include <c10/core/Event.h>
#include <capstan/base/export.h>
#include <capstan/monitor/monitor.h>
#include <capstan/monitor/tracer.h>

#include <chrono>
#include <cstdint>
#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

CAPSTAN_BEGIN_NAMESPACE
namespace train {

/// A point of this GPU's current stream: once the GPU has passed it, it has a time.
c10::Event timed_event(c10::Device gpu);

/// How long this rank is in collectives, waiting for the others included: the rank that others wait for is in them
/// least. On a CPU rank the time of the calls; on a GPU the time between two events around each call on its stream, in
/// one step of eight, since events cost a little. Checkpoints', which another thread waits for, do not count.
class CollectiveClock final : public monitor::Tracer {
 public:
  explicit CollectiveClock(c10::Device device) : device_(device) {}
  void begin(monitor::Span kind, std::string_view name) noexcept override;
  void end(monitor::Span kind, std::string_view name) noexcept override;
  /// Seconds in the collectives since the last call; on a GPU in the step before that. Nothing where these were not
  /// measured. Once a step, at the same place on all ranks.
  std::optional<double> next_step();
  /// What has been measured since the last call does not count: an evaluation, a save.
  void forget();

  static constexpr std::int64_t gpu_every = 8;  ///< steps

 private:
  struct Timed {
    c10::Event before;
    c10::Event after;
  };
  std::optional<double> next_gpu_step();
  void give_up(const std::exception& error);

  c10::Device device_;
  std::mutex mutex_;  // guards what follows
  bool works_ = true;
  std::int64_t steps_ = 0;
  std::map<std::string, std::chrono::steady_clock::time_point, std::less<>> open_;
  double seconds_ = 0;
  std::map<std::string, c10::Event, std::less<>> open_on_gpu_;
  std::vector<Timed> calls_;  ///< this step's
  std::vector<Timed> last_;   ///< the previous step's
};

/// slowest_rank and slowest_rank_wait_s: the rank that was in collectives least, and how much longer the others were on
/// average. `seconds`: by rank; with fewer than two ranks nothing is said.
monitor::Values slowest_rank(const std::vector<double>& seconds);

}  // namespace train
CAPSTAN_END_NAMESPACE
