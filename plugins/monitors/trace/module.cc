#include <capstan/base/output.h>
#include <capstan/base/text.h>
#include <capstan/monitor.h>
#include <capstan/monitor_parts/chosen.h>

#include <algorithm>
#include <memory>

#include "recorder.h"

namespace trace {
namespace {

using namespace capstan;

class Trace final : public monitor::Monitor, public monitor::PlannedRunCheck {
 public:
  explicit Trace(const config::Options<TraceOptions>& options)
      : options_(*options),
        steps_(monitor::chosen_numbers(options, &TraceOptions::steps)),
        ranks_(monitor::chosen_numbers(options, &TraceOptions::ranks)) {}
  void check(const monitor::PlannedRun& run, Diagnostics& diagnostics) const override {
    monitor::check_chosen_steps(steps_, ranks_, run, diagnostics);
  }
  void run_started(const monitor::RunStarted& run) override {
    folder_ = run.folder;
    prints_ = run.rank == 0;
    const bool records = std::find(options_.ranks.begin(), options_.ranks.end(), run.rank) != options_.ranks.end();
    if (!records) return;
    recorder_ = std::make_shared<Recorder>(options_, std::filesystem::path(run.folder) / "traces",
                                           cat("rank-", run.rank), run.gpu);
  }
  std::shared_ptr<monitor::Tracer> tracer() override { return recorder_; }
  monitor::Summary summary(const monitor::RunEnded&) override {
    if (recorder_) recorder_->finish();
    return {};
  }
  void run_ended(const monitor::RunEnded&) override {
    if (prints_ && recorder_ && !recorder_->files().empty()) {
      output_.write(cat("Traces: ", recorder_->files().front().parent_path().string(),
                        " (Perfetto shows them; a table: capstan trace '", folder_, "')\n"));
    }
  }

 private:
  TraceOptions options_;
  monitor::ChosenNumbers steps_;
  monitor::ChosenNumbers ranks_;
  Output output_;
  std::string folder_;
  bool prints_ = false;
  std::shared_ptr<Recorder> recorder_;
};

}  // namespace
}  // namespace trace

CAPSTAN_MONITOR("trace", "1.0", "chosen steps as a timeline: units, collectives, kernels", trace::Trace,
                trace::TraceOptions)
