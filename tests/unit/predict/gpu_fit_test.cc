// check --gpu: which GPUs it knows, and what it says of a peak.
#include "predict/gpu_fit.h"

#include <capstan/base/text.h>
#include <capstan_catch.h>

#include "predict/trials.h"
#include "ranks/check_command.h"
#include "support/errors.h"
#include "support/folder.h"
#include "support/job.h"

namespace gpu_fit_test {

using namespace capstan;
using predict::Change;
using predict::Gpu;
using predict::gpu_named;
using predict::Peak;

namespace {

constexpr std::int64_t gib = 1LL << 30;

job::Prediction prediction_of(std::int64_t peak) {
  return {{{"all", peak, "cuda", "always"}, {"offloaded", 500 * gib, "host", "always"}}, true, ""};
}

// The prediction of a job with micro-batches of 2, accumulated 3 times.
predict::Predicted on_gpus(const job::Prediction& prediction) { return {prediction, "cuda", {2, 3, 6, 1}}; }

predict::Fit judge_fit(std::int64_t peak, const Gpu& gpu, const predict::RankCounts& ranks,
                       const predict::Trials& trials) {
  const auto prediction = prediction_of(peak);
  return predict::judge_fit(on_gpus(prediction), gpu, ranks, trials);
}

// What strategies may offer.
predict::Trials trials(predict::PeakWith peak_with) {
  using By = plugin::Saving::By;
  const std::string shard = "strategy.fsdp.mode=full_shard", stage = "strategy.zero.stage=3";
  return {{{By::sharding, {"shard everything", {shard}}},
           {By::offloading,
            {"keep the optimizer and parameters in host memory", {shard, "strategy.fsdp.cpu_offload=true"}}},
           {By::recomputing, {"recompute each unit", {"strategy.recompute.every=1", "strategy.recompute.regions=[]"}}},
           {By::sharding, {"shard everything", {stage}}},
           {By::offloading, {"keep the optimizer in host memory", {stage, "strategy.zero.offload_optimizer=cpu"}}}},
          std::move(peak_with)};
}

}  // namespace

TEST_CASE("a GPU is a name or a size") {
  for (const auto& [name, least, most] : {std::tuple{"a100-40g", 39, 40},
                                          {"a100-80g", 79, 80},
                                          {"h100-80g", 79, 80},
                                          {"h200-141g", 139, 141},
                                          {"v100-32g", 31, 32}}) {
    CHECK(gpu_named(name).bytes > least * gib);
    CHECK(gpu_named(name).bytes < most * gib);
  }
  for (const auto* size : {"80GiB", "80G", "80GB", "80 GiB", "80g"}) CHECK(gpu_named(size).bytes == 80 * gib);
  CHECK(gpu_named("40.5GiB").bytes == 81 * gib / 2);
  for (const auto* wrong : {"a100", "80", "80 MiB", "1GiB", "-3GiB", "1e9G", ""}) {
    INFO(wrong);
    CHECK_THROWS_WITH(gpu_named(wrong),
                      Contains(cat("--gpu ", wrong, ": no such GPU, and no size in GiB")) &&
                          Contains("give one of v100-32g, a100-40g, a100-80g, h100-80g, h200-141g, or "
                                   "a size such as 80GiB"));
  }
}

TEST_CASE("a verdict about an evaluation's peak says so") {
  auto prediction = prediction_of(90 * gib);
  const auto text = [&](std::int64_t training) {
    prediction.peaks = {{"training's peak", training, "cuda", ""}, {"evaluation's peak", 60 * gib, "cuda", ""}};
    const auto nothing = [](const predict::Change&) { return std::optional<Peak>(); };
    const auto fit = predict::judge_fit(on_gpus(prediction), gpu_named("a100-80g"), {1, 1}, trials(nothing));
    CHECK_FALSE(fit.fits);
    return fit.text;
  };
  CHECK_THAT(text(70 * gib), Contains(" too much; this is an evaluation's peak, training's is 70.00 GiB\n"));
  CHECK_THAT(text(90 * gib), !Contains("this is an evaluation's peak"));
}

TEST_CASE("a V100 computes in fp16, with a LibTorch for CUDA 12") {
  const auto faults_of = [](const char* gpu, const char* precision, int cuda) {
    Diagnostics faults;
    predict::judge_gpu(gpu_named(gpu), precision, cuda, faults);
    return faults.list();
  };
  CHECK(faults_of("v100-32g", "fp16", 12).empty());
  CHECK(faults_of("v100-32g", "fp16", 0).empty());
  CHECK(faults_of("a100-80g", "bf16", 13).empty());
  CHECK(faults_of("40GiB", "bf16", 13).empty());
  const auto both = faults_of("v100-32g", "bf16_pure", 13);
  REQUIRE(both.size() == 2);
  CHECK_THAT(both[0].what, Contains("train.precision = \"bf16_pure\" needs compute capability 8.0, this GPU has 7.0"));
  CHECK_THAT(both[1].what, Contains("built for CUDA 13, which needs compute capability 7.5"));
}

TEST_CASE("what fits is told with what is left") {
  const Gpu gpu{"80GiB", 80 * gib};
  const auto nothing = [](const Change&) -> std::optional<Peak> { throw std::logic_error("nothing to try"); };
  const auto fit = judge_fit(40 * gib, gpu, {1}, trials(nothing));
  CHECK(fit.fits);
  CHECK(fit.text ==
        "80GiB: 80.00 GiB, less 1.50 GiB for CUDA, NCCL and gaps between tensors. The predicted peak of "
        "40.00 GiB fits, 38.50 GiB are left\n");
  const auto narrow = judge_fit(77 * gib, gpu, {1}, trials(nothing));
  CHECK(narrow.fits);
  CHECK_THAT(narrow.text, Contains("1.50 GiB are left (less than the 5 % by which a prediction may be wrong)"));
}

TEST_CASE("what fits is told where the largest tensor is larger than what is left") {
  const auto text = [](std::int64_t largest) {
    auto prediction = prediction_of(60 * gib);
    prediction.largest_tensor = largest;
    return predict::judge_fit(on_gpus(prediction), {"80GiB", 80 * gib}, {1}, {}).text;
  };
  CHECK_THAT(text(19 * gib),
             Contains("18.50 GiB are left (less than the largest tensor, 19.00 GiB, which is in one piece)\n"));
  CHECK_THAT(text(18 * gib), Contains("18.50 GiB are left\n"));
}

TEST_CASE("what does not fit is told with what would make it smaller") {
  std::vector<std::string> tried;
  const auto peak_with = [&](const Change& change) -> std::optional<Peak> {
    tried.push_back(change.words);
    if (change.overrides == std::vector<std::string>{"strategy.fsdp.mode=full_shard"}) return {};  // cannot be
    if (change.words == "recompute each unit") return Peak{70 * gib};
    if (change.words == "evaluation of one sample at a time") {
      CHECK(change.overrides == std::vector<std::string>{"train.eval_batch=1"});
      return Peak{88 * gib};
    }
    if (change.words == "micro-batches of 1 instead of 2") {
      CHECK(change.overrides == std::vector<std::string>{"train.micro_batch=1", "train.accumulation=6"});
      return Peak{85 * gib};
    }
    if (change.overrides == std::vector<std::string>{"train.regather=micro_step"}) return Peak{80 * gib};
    return Peak{change.ranks == 4 ? 60 * gib : 90 * gib};
  };
  const auto fit = judge_fit(90 * gib, {"80GiB", 80 * gib}, {2}, trials(peak_with));
  CHECK(!fit.fits);
  CHECK_THAT(fit.text, Contains("The predicted peak of 90.00 GiB does not fit: 11.50 GiB too much\nWhat would make it "
                                "smaller:\n"));
  CHECK_THAT(fit.text, Contains("recompute each unit                 70.00 GiB  fits          "
                                "strategy.recompute.every=1 strategy.recompute.regions=[]\n"));
  CHECK_THAT(fit.text, Contains("micro-batches of 1 instead of 2     85.00 GiB  does not fit  "));
  CHECK_THAT(fit.text, Contains("4 ranks                             60.00 GiB  fits          --ranks 4\n"));
  CHECK_THAT(fit.text, !Contains("shard everything") && !Contains("host memory") && !Contains("8 ranks"));
  CHECK_THAT(fit.text, Contains("evaluation of one sample at a time  88.00 GiB  does not fit  train.eval_batch=1\n"));
  CHECK_THAT(fit.text,
             Contains("gather again in each micro-step     80.00 GiB  does not fit  train.regather=micro_step\n"));
  CHECK(tried.size() == 14);
  const auto stuck =
      judge_fit(90 * gib, {"80GiB", 80 * gib}, {2}, trials([](const Change&) { return Peak{90 * gib}; }));
  CHECK_THAT(stuck.text, Contains("Nothing that check tries makes it smaller.\n"));
}

TEST_CASE("what offload would take of host memory is said, and held only against run.host_memory") {
  const auto text = [](Peak of_fsdp, Peak of_zero) {
    const auto peak_with = [&](const Change& change) -> std::optional<Peak> {
      if (change.words == "keep the optimizer and parameters in host memory") return of_fsdp;
      if (change.words == "keep the optimizer in host memory") return of_zero;
      return {};
    };
    return judge_fit(90 * gib, {"80GiB", 80 * gib}, {2}, trials(peak_with)).text;
  };
  const auto rows = text({20 * gib, 300 * gib}, {85 * gib, 200 * gib});
  CHECK_THAT(rows, Contains("  20.00 GiB  fits, 300.00 GiB of host memory a rank          strategy.fsdp.mode="));
  CHECK_THAT(rows, Contains("  85.00 GiB  does not fit, 200.00 GiB of host memory a rank  strategy.zero.stage=3 "));
  CHECK_THAT(text({20 * gib, 300 * gib, false}, {85 * gib}),
             Contains("20.00 GiB  fits, 300.00 GiB of host memory a rank: more than run.host_memory  strategy."));
}

TEST_CASE("more ranks are more nodes of the same size, where check was told of nodes") {
  const auto text = [](const predict::RankCounts& ranks) {
    const auto peak_with = [](const Change& change) -> std::optional<Peak> {
      if (change.ranks > 0) return Peak{640 * gib / change.ranks};
      return {};
    };
    return judge_fit(90 * gib, {"80GiB", 80 * gib}, ranks, trials(peak_with)).text;
  };
  CHECK_THAT(text({8, 0}), Contains("fits  --ranks 16\n"));
  CHECK_THAT(text({8, 4}), Contains("fits  --ranks 16 --nodes 8\n") && Contains("fits  --ranks 64 --nodes 32\n"));
}

TEST_CASE("without a prediction there is nothing to judge") {
  auto prediction = prediction_of(gib);
  prediction.activations = false;
  prediction.activations_note = "activations cannot be predicted: aten::thing has no rule";
  auto predicted = on_gpus(prediction);
  const auto judge = [&] { predict::judge_fit(predicted, {"80GiB", 80 * gib}, {1}, {}); };
  CHECK_THROWS_WITH(judge(), Contains("--gpu: activations cannot be predicted: aten::thing has no rule") &&
                                 Contains("leave --gpu out: the table then holds all but activations"));
  predicted.device = "cpu";
  CHECK_THROWS_WITH(judge(),
                    Contains("--gpu: run.device is \"cpu\"") && Contains("leave it out, or set run.device = \"cuda\""));
}

TEST_CASE("check --gpu ends with success where the run fits, and as a bad configuration where it does not") {
  const test::Folder folder;
  const auto file = folder.write("a.toml",
                                 "[model]\nplugin = \"gpt\"\nvocab_size = 50000\nhidden_size = 2048\nnum_layers = 24\n"
                                 "num_heads = 16\nseq_length = 512\nattention_dropout = 0.0\n[data]\nplugin = "
                                 "\"synthetic\"\n[train]\nmax_steps = 1\nmicro_batch = 4\n");
  const auto none = launch::environment({});
  CHECK(ranks::check_command({file, {}, 2, {}, "h200-141g"}, none) == 0);
  CHECK(ranks::check_command({file, {}, 2, {}, "10GiB"}, none) == 2);
}

TEST_CASE("a run is held against its smallest GPU before it starts") {
  const test::Folder folder;
  setup::JobRequest request;
  request.file = folder.write("a.toml",
                              "[model]\nplugin = \"gpt\"\nvocab_size = 5000\nhidden_size = 1024\nnum_layers = 8\n"
                              "num_heads = 8\nseq_length = 256\nattention_dropout = 0.0\n[data]\nplugin = "
                              "\"synthetic\"\n[train]\nmax_steps = 1\nmicro_batch = 4\n");
  request.device = "cuda";
  request.any_host_memory = true;
  request.activations = true;
  plugin::Host host;
  const auto text = [&](std::int64_t room) {
    request.gpu_room = room;
    return predict::too_large_text(testing::job_of(request, host), host);
  };
  const auto large = text(gib);
  CHECK_THAT(large, Contains("memory of a rank, with activations:") && Contains("activations and gradients at work") &&
                        Contains("the run's smallest GPU: 2.50 GiB, less 1.50 GiB") && Contains("does not fit: ") &&
                        Contains("What would make it smaller:") && Contains("train.micro_batch=1"));
  CHECK(text(40 * gib).empty());
  CHECK(text(0).empty());  // CPUs
  request.activations = false;
  CHECK(text(gib).empty());
}

TEST_CASE("strategies that are installed offer what makes a run smaller") {
  plugin::Host host(std::vector<std::filesystem::path>{});
  std::vector<std::string> options;
  for (const auto& offer : predict::offers_of(host)) options.push_back(join(offer.change.overrides, " "));
  for (const auto* one : {"strategy.recompute.every=1 strategy.recompute.regions=[]", "strategy.fsdp.mode=full_shard",
                          "strategy.fsdp.mode=full_shard strategy.fsdp.cpu_offload=true", "strategy.zero.stage=3",
                          "strategy.zero.stage=3 strategy.zero.offload_optimizer=cpu"}) {
    INFO(one);
    CHECK(std::count(options.begin(), options.end(), one) == 1);
  }
}

}  // namespace gpu_fit_test
