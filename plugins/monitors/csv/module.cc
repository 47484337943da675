#include <capstan/base/error.h>
#include <capstan/base/text.h>
#include <capstan/monitor.h>
#include <capstan/monitor_parts/file_name.h>
#include <capstan/monitor_parts/metrics.h>

#include <filesystem>
#include <optional>

#include "table.h"

namespace csv {
namespace {

using namespace capstan;

struct CsvOptions {
  std::string file = "metrics.csv";

  static void describe(config::OptionTable<CsvOptions>& t) {
    t.add("file", &CsvOptions::file)
        .doc("the table's name in the run's folder: no path, and none of the run's own files");
  }
};

/// Rank 0 writes a row for each step and each evaluation.
class Csv final : public monitor::Monitor {
 public:
  explicit Csv(const config::Options<CsvOptions>& options) : options_(*options) {
    const auto fault = monitor::file_name_fault(options_.file);
    if (fault.empty()) return;
    throw Error(cat(options.name(&CsvOptions::file), " ", fault), monitor::file_name_fix,
                options.where(&CsvOptions::file));
  }
  void run_started(const monitor::RunStarted& run) override {
    first_step_ = run.first_step;
    if (run.rank == 0) table_.emplace(std::filesystem::path(run.folder) / options_.file, run.first_step);
  }
  monitor::Values step_ended(const monitor::StepEnded& step) override {
    if (table_) table_->add(step.step + 1, monitor::step_metrics(step));
    return {};
  }
  void eval_ended(const monitor::EvalEnded& eval) override {
    if (!table_) return;
    // What was evaluated after the step that the run resumes from may be evaluated again.
    const auto values = monitor::eval_metrics(eval);
    eval.step == first_step_ ? table_->replace(eval.step, values) : table_->add(eval.step, values);
  }

 private:
  CsvOptions options_;
  std::int64_t first_step_ = 0;
  std::optional<Table> table_;
};

}  // namespace
}  // namespace csv

CAPSTAN_MONITOR("csv", "1.0", "steps and evaluations as a table, a row each", csv::Csv, csv::CsvOptions)
