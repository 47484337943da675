#include <capstan_catch.h>

#include <fstream>

#include "step/evaluate.h"
#include "support/folder.h"
#include "support/job.h"
#include "support/layouts.h"

namespace nf4_test {

using namespace capstan;
using namespace capstan::testing;

namespace {

const std::string llama = "hidden_size = 256\nnum_heads = 4\nnum_kv_heads = 2\nff_dim = 128\nattention_bias = true\n";
const std::string lora = "[strategy.lora]\ntargets = [\"linear_qkv\", \"linear_proj\"]\ninit = \"random\"\n";
const std::string nf4 = "[strategy.nf4]\n";
const std::string tensors2 = "[strategy.tensor_parallel]\nsize = 2\n",
                  tensors4 = "[strategy.tensor_parallel]\nsize = 4\n";

}  // namespace

TEST_CASE("what cannot be is refused in words") {
  CHECK_THAT(refusal_of(configuration("llama", llama, nf4)), Contains("strategy.nf4 keeps model.layers.0") &&
                                                                 Contains("would be trained") &&
                                                                 Contains("add strategy.lora"));
  CHECK_THAT(refusal_of(configuration("llama", llama, "[strategy.lora]\nmodules_to_save = [\"linear_fc1\"]\n" + nf4)),
             Contains("strategy.nf4 keeps model.layers.0.mlp") && Contains("would be trained"));
  CHECK_THAT(refusal_of(configuration("llama", llama, lora + "[strategy.nf4]\ntargets = [\"linear_qvk\"]\n")),
             Contains("but the model has: all-linear, linear_qkv") && Contains("did you mean 'linear_qkv'"));
  CHECK_THAT(refusal_of(configuration("llama", llama, lora + nf4 + "[strategy.fp8]\n")), Contains("matrix products"));
  CHECK_THAT(refusal_of(configuration("llama", llama, lora + nf4 + "targets = [\"linear_fc2\"]\n" + tensors4), 4),
             Contains("down_proj.weight [256, 128] cannot be kept by strategy 'nf4'") &&
                 Contains("a rank has 32 of its 128 columns, which is no multiple of 64"));
  const std::string small = "hidden_size = 64\nnum_heads = 4\nff_dim = 64\n", odd = "hidden_size = 12\nnum_heads = 3\n";
  CHECK_THAT(refusal_of(configuration("llama", small, lora + nf4 + tensors2), 2),
             Contains("q_proj.weight [64, 64] cannot be kept by strategy 'nf4'") &&
                 Contains("2,048 elements, which is no multiple of 16,384"));
  CHECK_THAT(refusal_of(configuration("llama", odd + "ff_dim = 22\n", lora + nf4)),
             Contains("144 elements, which is no multiple of 64"));
}

TEST_CASE("an evaluation trains nothing, so that a base in 4 bits needs no adapters") {
  const auto loss_with = [](const std::string& tables) {
    const test::Folder folder;
    const auto file = folder.path() / "job.toml";
    std::ofstream(file) << configuration("llama", llama, tables)
                        << "[data]\nplugin = \"synthetic\"\nsamples = 8\nmax_length = 24\n[run]\ndevice = \"cpu\"\n";
    setup::JobRequest request;
    request.file = file.string();
    request.purpose = setup::Purpose::evaluate;
    const auto job = job_of(request);
    double loss = 0;
    comm::run_in_process(1, [&](comm::Communicator& communicator) {
      auto session = step::materialise(job, communicator);
      const step::Feed feed(job);
      loss = step::Evaluator(session, feed).loss(*job.samples.train).loss;
    });
    return loss;
  };
  const auto whole = loss_with(""), coded = loss_with(nf4);
  CHECK(coded != whole);
  CHECK(coded == Approx(whole).epsilon(0.05));
}

}  // namespace nf4_test
