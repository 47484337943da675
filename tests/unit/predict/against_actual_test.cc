// What a run says at its end: predicted against actual.
#include "predict/against_actual.h"

#include <capstan_catch.h>

namespace against_actual_test {

using namespace capstan;

namespace {

constexpr std::int64_t gib = std::int64_t{1} << 30;

job::Prediction on_gpu() {
  return {{{"parameters", 4 * gib, "cuda", "always"},
           {"gradients", 2 * gib, "cuda", "always"},
           {"optimizer state", 6 * gib, "cuda", "always"},
           {"cuBLAS", gib, "cuda", "always"},
           {"activations and gradients at work", 7 * gib, "cuda", "peak: backward of head"},
           {"checkpoint", 9 * gib, "host", "always"}},
          true,
          ""};
}

}  // namespace

TEST_CASE("a run on GPUs says what was there before its steps, what came with them, and the peak") {
  const auto text = predict::against_actual(on_gpu(), "cuda", {6 * gib, 21 * gib, 0.5}, 0.4);
  CHECK_THAT(text, Contains("parameters, gradients, buffers                6.00 GiB   6.00 GiB   1.00"));
  CHECK_THAT(text, Contains("optimizer state, activations, gathered units  14.00 GiB  15.00 GiB  1.07"));
  CHECK_THAT(text, Contains("peak of the GPU's tensors") && Contains("20.00 GiB  21.00 GiB  1.05"));
  CHECK_THAT(text, Contains("mean step, without the longest") && Contains("400.0 ms   500.0 ms   1.25"));
  CHECK_THAT(predict::against_actual(on_gpu(), "cuda", {6 * gib, 21 * gib, 0.5}, 0), Contains("not predicted"));
}

TEST_CASE("nothing is said of a run on CPUs: what is predicted there is not what is measured") {
  const job::Prediction prediction{{{"parameters", 4 * gib, "cpu", "always"}}, false, ""};
  CHECK(predict::against_actual(prediction, "cpu", {0, 0, 0.5}, 0).empty());
}

TEST_CASE("without a prediction nothing is said") {
  CHECK(predict::against_actual({{}, false, "activations cannot be predicted"}, "cuda", {1, 1, 1}, 0).empty());
}

TEST_CASE("the driver's names mean the GPUs whose figures are known") {
  CHECK(predict::figures_of_device("0 NVIDIA H200 GPU-1234", 140 * gib)->gpu == "h200-141g");
  CHECK(predict::figures_of_device("0 NVIDIA H100 80GB HBM3 GPU-1234", 79 * gib)->gpu == "h100-80g");
  CHECK(predict::figures_of_device("0 NVIDIA A100-SXM4-40GB GPU-1234", 39 * gib)->gpu == "a100-40g");
  CHECK(predict::figures_of_device("0 NVIDIA A100-SXM4-80GB GPU-1234", 79 * gib)->gpu == "a100-80g");
  CHECK(!predict::figures_of_device("0 NVIDIA H100 PCIe GPU-1234", 79 * gib));  // another card's rates
  CHECK(!predict::figures_of_device("0 Tesla V100-SXM2-32GB GPU-1234", 32 * gib));
}

}  // namespace against_actual_test
