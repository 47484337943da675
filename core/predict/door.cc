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
    return session::settle_by_memory(session::settle_length(request, host, unknown), host);
  }
  void add_micro_step(const std::vector<assembly::Position>& positions, const assembly::PredictionInputs& inputs,
                      std::vector<assembly::Prediction>& predictions) const override {
    assembly::add_micro_step(positions, inputs, predictions);
  }
  plan::Gpu gpu_named(const std::string& text) const override { return plan::gpu_named(text); }
  void judge_gpu(const plan::Gpu& gpu, const std::string& precision, int cuda_major,
                 Diagnostics& faults) const override {
    plan::judge_gpu(gpu, precision, cuda_major, faults);
  }
  plan::Fit judge_fit(const session::Job& job, const plan::Gpu& gpu, const plan::RankCounts& ranks,
                      plugin::Host& host) const override {
    return plan::judge_job(job, gpu, ranks, host);
  }
  std::string too_large_text(const session::Job& job, plugin::Host& host) const override {
    return plan::too_large_text(job, host);
  }
  std::vector<monitor::MemorySaving> savings(const setup::JobRequest& request, plugin::Host& host) const override {
    return plan::savings(request, host);
  }
  std::string against_actual(const session::Job& job, const plan::Actual& actual) const override {
    return plan::against_actual(job, actual);
  }
  std::unique_ptr<Planner> planner(const Planned& planned, const plan::Machines& machines,
                                   plugin::Host& host) const override {
    return plan::make_planner(planned, machines, host);
  }
};

}  // namespace
}  // namespace capstan::predict

extern "C" [[gnu::visibility("default")]] const void* capstan_predict() {
  static const capstan::predict::Library library;
  return static_cast<const capstan::predict::Door*>(&library);
}
