#include <capstan/base/paths.h>
#include <capstan/base/text.h>
#include <capstan/monitor.h>
#include <capstan/monitor_parts/metrics.h>

#include <chrono>
#include <filesystem>
#include <optional>

#include "events.h"

namespace tensorboard {

using namespace capstan;

struct TensorBoardOptions {
  std::optional<std::string> folder;

  static void describe(config::OptionTable<TensorBoardOptions>& t) {
    t.add("folder", &TensorBoardOptions::folder)
        .path()
        .doc("folder that gets a folder named as the run is; not set: tensorboard in the run's folder");
  }
};

namespace {

double now_s() { return std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count(); }

std::string table_of(const std::vector<monitor::Setting>& settings) {
  std::string text = "| option | value | from |\n|---|---|---|\n";
  for (const auto& setting : settings) {
    text += cat("| ", setting.table, ".", setting.key, " | ", config::value_text(setting.value), " | ",
                setting.origin.text(), " |\n");
  }
  return text;
}

/// Rank 0 writes an event file; a run that resumes adds another one, which TensorBoard shows as one run.
class TensorBoard final : public monitor::Monitor {
 public:
  explicit TensorBoard(const config::Options<TensorBoardOptions>& options) : options_(*options) {}
  void run_started(const monitor::RunStarted& run) override {
    if (run.rank != 0) return;
    const auto folder = options_.folder ? std::filesystem::path(*options_.folder) / run.name
                                        : std::filesystem::path(run.folder) / "tensorboard";
    std::error_code error;
    std::filesystem::create_directories(folder, error);
    if (error) throw FileError(folder, "make", error.value());
    const double now = now_s();
    const auto seconds = static_cast<std::int64_t>(now);
    file_.emplace(folder / cat("events.out.tfevents.", seconds, ".", run.hosts.front(), ".", run.processes.front(), ".",
                               run.first_step),
                  now);
    if (run.first_step == 0) file_->text(now, "config/text_summary", table_of(run.settings));
  }
  monitor::Values step_ended(const monitor::StepEnded& step) override {
    if (file_) file_->scalars(now_s(), step.step + 1, monitor::step_metrics(step));
    return {};
  }
  void eval_ended(const monitor::EvalEnded& eval) override {
    if (file_) file_->scalars(now_s(), eval.step, monitor::eval_metrics(eval));
  }
  void run_ended(const monitor::RunEnded& run) override {
    if (file_) file_->scalars(now_s(), run.steps, monitor::run_metrics(run));
  }

 private:
  TensorBoardOptions options_;
  std::optional<EventFile> file_;
};

}  // namespace
}  // namespace tensorboard

CAPSTAN_MONITOR("tensorboard", "1.0", "an event file for TensorBoard", tensorboard::TensorBoard,
                tensorboard::TensorBoardOptions)
