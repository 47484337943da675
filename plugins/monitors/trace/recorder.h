#pragma once
#include <ATen/record_function.h>
#include <capstan/config/options.h>
#include <capstan/monitor/tracer.h>

#include <cstdint>
#include <filesystem>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

namespace trace {

struct TraceOptions {
  std::vector<std::int64_t> steps = {3, 4};
  std::vector<std::int64_t> ranks = {0};
  bool units = true;

  static void describe(capstan::config::OptionTable<TraceOptions>& t);
};

/// Records the spans of chosen steps, and on a GPU its kernels and copies, with the profiler that LibTorch has built in
/// (Kineto, which opens CUPTI): steps that follow one another go into one file. begin() and end() of steps and
/// evaluations, and finish(), come from one thread; spans within from any.
class Recorder final : public capstan::monitor::Tracer {
 public:
  /// Files are <folder>/<name>-step-<first>.json. `gpu`: below 0 for none.
  Recorder(TraceOptions options, std::filesystem::path folder, std::string name, int gpu);
  ~Recorder() override;
  void begin(capstan::monitor::Span kind, std::string_view name) noexcept override;
  void end(capstan::monitor::Span kind, std::string_view name) noexcept override;
  bool units() const override { return units_; }
  /// Ends what is being recorded and writes it. Throws Error where that fails.
  void finish();
  /// Those that were written.
  const std::vector<std::filesystem::path>& files() const { return files_; }

 private:
  using Key = std::pair<capstan::monitor::Span, std::string>;
  void start(std::int64_t step);
  void step_begins(std::string_view name);

  std::vector<std::int64_t> steps_;
  bool units_;
  std::filesystem::path folder_;
  std::string name_;
  int gpu_;
  bool records_ = false;
  std::int64_t first_ = 0;  ///< first of the steps being recorded
  std::vector<std::filesystem::path> files_;
  std::mutex mutex_;
  std::map<Key, std::unique_ptr<at::RecordFunction>> open_;
};

/// What a span is called in the file: "step 3", "forward blocks.3", "optimizer", "all-gather 'fsdp blocks.3'".
std::string span_text(capstan::monitor::Span kind, std::string_view name);

}  // namespace trace
