#include <capstan/base/output.h>
#include <capstan/base/text.h>
#include <capstan/monitor.h>
#include <capstan/monitor_parts/metrics.h>

#include <optional>

#include "store.h"

namespace mlflow {
namespace {

using namespace capstan;

/// Rank 0 writes the run.
class Mlflow final : public monitor::Monitor {
 public:
  explicit Mlflow(const config::Options<MlflowOptions>& options) : options_(*options) {}
  void run_started(const monitor::RunStarted& run) override {
    if (run.rank == 0) store_.emplace(options_, run);
  }
  monitor::Values step_ended(const monitor::StepEnded& step) override {
    if (store_) store_->log(step.step + 1, monitor::step_metrics(step));
    return {};
  }
  void eval_ended(const monitor::EvalEnded& eval) override {
    if (store_) store_->log(eval.step, monitor::eval_metrics(eval));
  }
  void run_ended(const monitor::RunEnded& run) override {
    if (!store_) return;
    store_->finish(run);
    output_.write(cat("MLflow run; to look at it: mlflow ui --backend-store-uri '", store_->root().string(), "'\n"));
  }

 private:
  MlflowOptions options_;
  Output output_;
  std::optional<Store> store_;
};

}  // namespace
}  // namespace mlflow

CAPSTAN_MONITOR("mlflow", "1.0", "a run in a file store of MLflow", mlflow::Mlflow, mlflow::MlflowOptions)
