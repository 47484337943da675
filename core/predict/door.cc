#include "predict/door.h"

#include "predict/against_actual.h"
#include "predict/micro_step.h"
#include "predict/planner.h"
#include "predict/settle.h"
#include "predict/trials.h"

namespace capstan::predict {
namespace {

class Library final : public Door {
 public:
  setup::JobRequest settle(const setup::JobRequest& request, plugin::Host& host, Diagnostics& unknown) const override {
    return settle_by_memory(settle_length(request, host, unknown), host);
  }
  void add_micro_step(const std::vector<job::Position>& positions, const job::PredictionInputs& inputs,
                      std::vector<job::Prediction>& predictions) const override {
    predict::add_micro_step(positions, inputs, predictions);
  }
  Gpu gpu_named(const std::string& text) const override { return predict::gpu_named(text); }
  void judge_gpu(const Gpu& gpu, const std::string& precision, int cuda_major, Diagnostics& faults) const override {
    predict::judge_gpu(gpu, precision, cuda_major, faults);
  }
  Fit judge_fit(const job::Job& job, const Gpu& gpu, const RankCounts& ranks, plugin::Host& host) const override {
    return judge_job(job, gpu, ranks, host);
  }
  std::string too_large_text(const job::Job& job, plugin::Host& host) const override {
    return predict::too_large_text(job, host);
  }
  std::vector<monitor::MemorySaving> savings(const setup::JobRequest& request, plugin::Host& host) const override {
    return predict::savings(request, host);
  }
  std::string against_actual(const job::Job& job, const Actual& actual) const override {
    return predict::against_actual(job, actual);
  }
  std::unique_ptr<plan::Predictor> planner(const Planned& planned, const plan::Machines& machines,
                                           plugin::Host& host) const override {
    return make_planner(planned, machines, host);
  }
};

}  // namespace
}  // namespace capstan::predict

extern "C" [[gnu::visibility("default")]] const void* capstan_predict() {
  static const capstan::predict::Library library;
  return static_cast<const capstan::predict::Door*>(&library);
}
