#pragma once
// libcapstan_diagnosis.so: what is wrong with a run that trains. The engine opens it where several ranks compare what
// they hold alike, and at a step that is not finite.
#include <capstan/base/error.h>
#include <capstan/base/export.h>
#include <capstan/monitor/monitor.h>

#include <cstdint>
#include <filesystem>
#include <memory>

#include "plugin/side_library.h"

CAPSTAN_BEGIN_NAMESPACE
namespace step {
struct Session;
struct StepInput;
struct StepNumbers;
}  // namespace step
namespace diagnosis {

/// Compares what ranks hold alike (parameters, adapters, optimizer state, compute copies): each holder of a tensor must
/// have the same bits. Checksums are made on the device; what only one rank holds, or what is in another memory than
/// the run's device, costs nothing and is not compared. One object a run; all ranks call it alike.
class Replicas {
 public:
  /// A drift begins with the first updates: these are always compared.
  static constexpr std::int64_t first_steps = 3;

  virtual ~Replicas() = default;
  /// Is it due when `steps_done` steps are done, some of them by this process?
  virtual bool due(std::int64_t steps_done, std::int64_t first_step) const = 0;
  /// Throws Error, the same on all ranks, that names what differs, the ranks, the axes along which they are replicas,
  /// and the steps between which it happened. Call it after at least one step. Waits for the device. Collective over
  /// the world.
  virtual void run(std::int64_t steps_done) = 0;
};

/// A step that was not finite, as the observers would be told of it.
struct BadStep {
  const step::Session& session;
  const monitor::StepEnded& event;
  const step::StepNumbers& numbers;
  const step::StepInput& input;
  bool scales_loss = false;
  std::filesystem::path folder = {};  ///< for a dump
};

/// The library's functions.
struct Door {
  /// They are compared every `every` steps. `session` must outlive the object.
  std::unique_ptr<Replicas> (*replicas)(const step::Session& session, std::int64_t every);
  /// Names parameter and unit, and what to do; writes a dump if train.on_nonfinite says so. The same on all ranks.
  /// Collective over the world.
  Diagnostic (*bad_step)(const BadStep& step);
};

/// Opens the library the first time. Throws Error where its file is missing.
inline const Door& door() { return plugin::door_of<Door>("diagnosis"); }

}  // namespace diagnosis
CAPSTAN_END_NAMESPACE
