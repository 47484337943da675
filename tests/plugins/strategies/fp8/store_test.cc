// A frozen base that is only in 8 bits: ranks that split it, share it or gather it learn what one rank learns.
#include <capstan_catch.h>

#include "support/folder.h"
#include "support/job.h"
#include "support/layouts.h"

namespace store_test {

using namespace capstan;
using namespace capstan::testing;

namespace {

constexpr double tolerance_of_store = 1e-10;

const std::string llama_64 = "hidden_size = 64\nnum_heads = 4\nnum_kv_heads = 4\nff_dim = 64\nattention_bias = true\n";
// Experts that two ranks can share, and such as they cannot: then they share the rows of each.
const std::string experts_4 = "hidden_size = 64\nnum_heads = 4\nnum_kv_heads = 4\nff_dim = 64\nnum_experts = 4\n";
const std::string experts_3 = "hidden_size = 64\nnum_heads = 4\nnum_kv_heads = 4\nff_dim = 64\nnum_experts = 3\n";

const std::string everywhere = "[strategy.lora]\ntargets = [\"all-linear\"]\ninit = \"random\"\n";
const std::string attention = "[strategy.lora]\ntargets = [\"linear_qkv\", \"linear_proj\"]\ninit = \"random\"\n";
const std::string stored = "[strategy.fp8]\nstore = \"fp8\"\n";
const std::string stored_both = "[strategy.fp8]\nstore = \"fp8_both\"\n";

}  // namespace

TEST_CASE("what is stored in 8 bits is what is multiplied without it") {
  const auto kept = run_of(configuration("llama", llama_64, everywhere + "[strategy.fp8]\n"));
  const auto alone = run_of(configuration("llama", llama_64, everywhere + stored));
  CHECK(alone.losses[0] == kept.losses[0]);  // forward's numbers are the same
  CHECK(alone.losses.back() == Approx(kept.losses.back()).epsilon(1e-3));
}

TEST_CASE("float64: a base in 8 bits, split over ranks", "[matrix]") {
  const std::string tensor2 = "[strategy.tensor_parallel]\nsize = 2\n";
  const std::string tensor4 = "[strategy.tensor_parallel]\nsize = 4\nsequence_parallel = true\n";
  check_splits(configuration("llama", llama_64, stored + everywhere), {{2, tensor2}, {4, tensor4}}, tolerance_of_store);
  check_splits(configuration("llama", llama_64, stored + attention), {{2, tensor2 + "[strategy.recompute]\n"}},
               tolerance_of_store);
  check_splits(configuration("mixtral", experts_4, stored + attention),
               {{2, tensor2}, {2, "[strategy.expert_parallel]\nsize = 2\n"}}, tolerance_of_store);
}

TEST_CASE("float64: a base in 8 bits, gathered in 8 bits or on each rank", "[matrix]") {
  check_splits(configuration("llama", llama_64, stored + everywhere),
               {{2, "[strategy.fsdp]\n"},
                {2, "[strategy.fsdp]\nmode = \"no_shard\"\n"},
                {4, "[strategy.fsdp]\nreshard_size = 2\n"},
                {2, "[strategy.zero]\nstage = 3\noffload_optimizer = \"cpu\"\noffload_param = \"cpu\"\n"},
                {4, "[strategy.fsdp]\n[strategy.tensor_parallel]\nsize = 2\n"}},
               tolerance_of_store);
  check_splits(configuration("mixtral", experts_4, stored + attention),
               {{4, "[strategy.fsdp]\n[strategy.expert_parallel]\nsize = 2\n"}}, tolerance_of_store);
  check_splits(configuration("mixtral", experts_3, stored + attention), {{2, "[strategy.fsdp]\n"}}, tolerance_of_store);
}

TEST_CASE("a run with a base in 8 bits resumes bit for bit, on other ranks too") {
  check_resumed(configuration("llama", llama_64, everywhere + stored), tolerance_of_store);
}

TEST_CASE("transposes that are kept in 8 bits change no bit", "[matrix]") {
  const auto same = [](const std::string& model, const std::string& sizes, const std::string& rest, int world = 1) {
    INFO(model << "\n" << rest);
    const auto without = run_of(configuration(model, sizes, stored + rest), world);
    CHECK(differences(run_of(configuration(model, sizes, stored_both + rest), world), without, 0) == "");
  };
  const std::string tensor2 = "[strategy.tensor_parallel]\nsize = 2\n";
  same("llama", llama_64, everywhere);
  same("llama", llama_64, attention + tensor2, 2);
  same("llama", llama_64, everywhere + "[strategy.fsdp]\n", 2);  // gathered for each use: none is kept
  same("llama", llama_64, everywhere + "[strategy.recompute]\n");
  same("llama", llama_64, everywhere + "[strategy.pipeline_parallel]\nsize = 2\n", 2);
  const std::string offload = "stage = 3\noffload_optimizer = \"cpu\"\noffload_param = \"cpu\"\n";
  same("llama", llama_64, everywhere + "[strategy.zero]\n" + offload);
  same("mixtral", experts_4, attention);
  same("mixtral", experts_4, attention + "[strategy.expert_parallel]\nsize = 2\n", 2);
}

TEST_CASE("transposes in 8 bits are made again where a run resumes") {
  check_resumed(configuration("llama", llama_64, everywhere + stored_both), tolerance_of_store);
}

TEST_CASE("what is kept in 8 bits is predicted: backward's form only where there is a backward") {
  const auto predicted = [](const std::string& store, setup::Purpose purpose) {
    const test::Folder folder;
    setup::JobRequest request;
    request.purpose = purpose;
    request.file = folder.write(
        "job.toml", configuration("llama", llama_64, everywhere + "[strategy.fp8]\nstore = \"" + store + "\"\n") +
                        "[train]\nmax_steps = 1\n[data]\nplugin = \"synthetic\"\nsamples = 8\nmax_length = "
                        "24\n[run]\ndevice = \"cpu\"\n");
    std::int64_t bytes = 0;
    for (const auto& part : job_of(request).prediction.footprints) {
      if (part.part == "frozen weights in 8 bits" || part.part == "transposes of weights in 8 bits")
        bytes += part.bytes;
    }
    return bytes;
  };
  using setup::Purpose;
  const auto one = predicted("fp8_both", Purpose::train);
  CHECK(one > 0);
  CHECK(predicted("bf16", Purpose::train) == 2 * one);
  CHECK(predicted("fp8", Purpose::train) == 0);
  CHECK(predicted("bf16", Purpose::evaluate) == one);
  CHECK(predicted("fp8_both", Purpose::evaluate) == 0);
}

}  // namespace store_test
