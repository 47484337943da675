#pragma once
#include <capstan/config/options.h>
#include <capstan/monitor/monitor.h>
#include <capstan/monitor/tracer.h>

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace memory_snapshot {

struct SnapshotOptions {
  std::vector<std::int64_t> steps;
  std::vector<std::int64_t> ranks = {0};

  static void describe(capstan::config::OptionTable<SnapshotOptions>& t) {
    t.add("steps", &SnapshotOptions::steps).doc("steps of which one is written, from 0");
    t.add("ranks", &SnapshotOptions::ranks)
        .doc("ranks that write one of chosen steps and on request; where memory runs out the rank that met it does");
  }
};

/// What a rank's memory is as a whole, bytes.
struct Whole {
  std::int64_t used = 0;      ///< in tensors on the GPU; on a CPU rank the resident set
  std::int64_t reserved = 0;  ///< what the GPU's allocator keeps, tensors and its cache; unused on a CPU rank
  std::int64_t peak = 0;      ///< the most of `used` since the first step; on a CPU rank since its process began
};

/// A rank's memory at one moment.
struct Moment {
  std::string at;  ///< "backward of blocks.3"
  Whole whole;
  std::vector<capstan::monitor::MemoryPart> held;
};

/// What a table is made of.
struct Snapshot {
  std::string title;
  bool gpu = false;
  Moment moment;
  std::vector<capstan::monitor::MemoryPart> predicted;
  std::string no_prediction;  ///< why there is none
  std::vector<capstan::monitor::MemorySaving> savings;
};

/// The table for people: a row a part, what is left over by name, and the two changes that would save most.
std::string snapshot_text(const Snapshot& snapshot);

/// Somebody touches a file to ask for a snapshot: true once for each touch. Files that were there before do not count.
class Request {
 public:
  explicit Request(std::filesystem::path file);
  /// Looks at most once a second: the file may be on a file system that many ranks share.
  bool is_new();

  static constexpr std::chrono::milliseconds between{1000};

 private:
  std::optional<std::filesystem::file_time_type> touched() const;
  std::filesystem::path file_;
  std::optional<std::filesystem::file_time_type> seen_;
  std::chrono::steady_clock::time_point looked_;
};

/// Follows a rank's steps by its spans and writes <folder>/memory_snapshots/rank-R-step-S.txt for the chosen steps, and
/// for those after a request: the moment at a unit's beginning or end at which most memory was in use. One thread at a
/// time.
class Watcher final : public capstan::monitor::Tracer {
 public:
  struct Setting {
    std::filesystem::path folder;  ///< the run's
    int rank = 0;
    bool gpu = false;
    std::vector<std::int64_t> steps;
    bool on_request = false;  ///< this rank answers requests
    capstan::monitor::MemoryQuestions questions;
    std::function<Whole()> whole;
  };
  explicit Watcher(Setting setting);
  void begin(capstan::monitor::Span kind, std::string_view name) noexcept override;
  void end(capstan::monitor::Span kind, std::string_view name) noexcept override;
  /// Files of chosen steps since the last call.
  std::vector<std::filesystem::path> take_written() { return std::exchange(written_, {}); }
  /// Memory ran out: writes rank-R-out-of-memory.txt and returns it with the text.
  std::pair<std::filesystem::path, std::string> out_of_memory(const std::string& what);

 private:
  void look(const std::string& at);
  void begin_step(std::string_view number);
  void end_step();
  Snapshot snapshot(std::string title, Moment moment);
  std::filesystem::path write(const std::string& name, const std::string& text) const;

  Setting setting_;
  Request request_;
  bool records_ = false;
  std::int64_t step_ = 0;
  std::string at_ = "the first step's beginning";
  Whole last_;
  Moment largest_;
  std::optional<std::vector<capstan::monitor::MemoryPart>> predicted_;
  std::optional<std::vector<capstan::monitor::MemorySaving>> savings_;
  std::string no_prediction_;
  std::vector<std::filesystem::path> written_;
};

}  // namespace memory_snapshot
