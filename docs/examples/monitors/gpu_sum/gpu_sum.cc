// A plugin with a kernel: the operator is defined here, and its CUDA implementation registered by gpu_sum_cuda.so.
#include <ATen/ATen.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <capstan/monitor.h>
#include <torch/library.h>

namespace gpu_sum {
namespace {

using namespace capstan;

// out[i] = i * x[i]
at::Tensor times_index_cpu(const at::Tensor& x) { return x * at::arange(x.numel(), x.options()); }

at::Tensor times_index(const at::Tensor& x) {
  static const auto op = c10::Dispatcher::singleton()
                             .findSchemaOrThrow("capstan_gpu_sum::times_index", "")
                             .typed<at::Tensor(const at::Tensor&)>();
  return op.call(x);
}

struct GpuSumOptions {
  std::int64_t count = 1000;
  static void describe(config::OptionTable<GpuSumOptions>& t) {
    t.add("count", &GpuSumOptions::count).min(1).max(1000).doc("numbers that are added");
  }
};

/// Returns 0 + 1 + … + (count - 1), added on the run's device: an integer below 2^24, so exact in fp32 in any order.
class GpuSum final : public monitor::Monitor {
 public:
  explicit GpuSum(const config::Options<GpuSumOptions>& options) : count_(options->count) {}
  void run_started(const monitor::RunStarted& run) override { device_ = run.device == "cuda" ? at::kCUDA : at::kCPU; }
  monitor::Values step_ended(const monitor::StepEnded&) override {
    const auto x = at::ones({count_}, at::TensorOptions().device(device_).dtype(at::kFloat));
    const auto products = times_index(x);
    return {{"gpu_sum/sum", products.sum().item<double>()}, {"gpu_sum/on_gpu", products.is_cuda() ? 1.0 : 0.0}};
  }

 private:
  std::int64_t count_;
  at::DeviceType device_ = at::kCPU;
};

}  // namespace

TORCH_LIBRARY_FRAGMENT(capstan_gpu_sum, m) { m.def("times_index(Tensor x) -> Tensor"); }
TORCH_LIBRARY_IMPL(capstan_gpu_sum, CPU, m) { m.impl("times_index", &times_index_cpu); }

}  // namespace gpu_sum

CAPSTAN_MONITOR("gpu_sum", "1.0", "a sum by a kernel of its own", gpu_sum::GpuSum, gpu_sum::GpuSumOptions)
