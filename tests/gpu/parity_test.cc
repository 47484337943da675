// bfloat16 on a GPU against transformers there, where the parity environment is ($CAPSTAN_PARITY_PYTHON).
#include <ATen/ATen.h>
#include <capstan_catch.h>
#include "comm/connect.h"

#include <cmath>
#include <iostream>

#include "parity/models.h"
#include "parity/reference.h"

using namespace capstan;
using parity::Case;

namespace {

constexpr int seeds = 5;

double squared_error(const at::Tensor& logits, const at::Tensor& exact) {
  return (logits.cpu().to(at::kDouble) - exact.to(at::kDouble)).square().mean().item<double>();
}

/// Our logits for a folder's ids, in bfloat16 on the GPU, on the CPU.
at::Tensor our_logits(const std::string& plugin, const std::filesystem::path& folder, const at::Tensor& ids) {
  const auto job = parity::prepare(plugin, folder, "bf16", "byte", "cuda");
  const auto alone = comm::connect({});
  auto session = step::materialise(job, *alone);
  return parity::logits_of(session, ids.to(session.device)).cpu();
}

}  // namespace

TEST_CASE("GPU: bfloat16 is as close to float32 as transformers' own bfloat16, over 5 seeds", "[parity]") {
  try {
    parity_python_4();
  } catch (const Error& missing) {
    std::cout << "skipped: " << missing.what() << std::endl;
    return;
  }
  const Scratch scratch;
  const auto models = scratch.path() / "models";
  run_python("models.py", {models.string(), std::to_string(seeds)}, parity_python_4());
  for (const auto& one :
       {Case{"gpt2", "gpt"}, Case{"bloom", "bloom"}, Case{"llama", "llama"}, Case{"mixtral", "mixtral"}}) {
    INFO(one.name);
    double ours = 0, theirs = 0;
    for (int seed = 0; seed < seeds; ++seed) {
      const auto folder = models / cat(one.name, "-", seed);
      const auto reference = parity::load(folder / "reference-cuda.safetensors");
      const auto& exact = reference.at("logits");
      ours += squared_error(our_logits(one.plugin, folder, reference.at("ids")), exact);
      theirs += squared_error(reference.at("bfloat16.logits"), exact);
    }
    const auto ratio = std::sqrt(ours / theirs);
    std::cout << one.name << ": " << std::sqrt(ours / seeds) << ", " << ratio << " times transformers'" << std::endl;
    CHECK(ratio <= 1.1);
  }
}
