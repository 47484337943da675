// What is predicted of a GPU's memory: against what was measured, and what it counts.
#include "job/predict.h"

#include <capstan_catch.h>

#include "predict/dry_job.h"

namespace predict_test {

using namespace capstan;
using namespace capstan::testing;

namespace {

const std::string gpt_3b =
    "[model]\nplugin = \"gpt\"\nvocab_size = 50257\nhidden_size = 3072\nnum_layers = 24\nnum_heads = 24\nff_dim = "
    "12288\nseq_length = 1024\ndropout = 0.0\n[data]\nplugin = \"synthetic\"\nmax_length = 1025\n";
const std::string on_2048_tokens = "[data]\nplugin = \"synthetic\"\nmax_length = 2049\n";
const std::string llama_8b = "[model]\nplugin = \"llama\"\npreset = \"llama3.1-8b\"\n" + on_2048_tokens;
const std::string mixtral_8x7b = "[model]\nplugin = \"mixtral\"\npreset = \"mixtral-8x7b\"\n" + on_2048_tokens;
const std::string mixtral_8_layers =
    "[model]\nplugin = \"mixtral\"\npreset = \"mixtral-8x7b\"\nnum_layers = 8\n" + on_2048_tokens;
const std::string bloom_560m =
    "[model]\nplugin = \"bloom\"\npreset = \"bloom-560m\"\n[data]\nplugin = \"synthetic\"\nmax_length = 513\n";
const std::string lora_32 = "[strategy.lora]\nrank = 32\n";
const std::string tensor_4 = "[strategy.tensor_parallel]\nsize = 4\nsequence_parallel = true\n";
const std::string pure = "precision = \"bf16_pure\"\n", mixed = "precision = \"bf16\"\n";

// tools/bench/records: the allocator's peak of tensors. Random weights route evenly, so expert rows count once.
struct Measured {
  std::string model;
  std::string more;
  int ranks;
  double gib;
  /// What was there when it was measured and is no more: logits16, a copy of the turned q and k in each block, what
  /// backward computes again, staging for more than most_staged elements, a table's gradient between micro-steps, rows
  /// of frozen experts, float32 copies of gradients that nothing is added to.
  double less = 0;
};

// A chunk has 2^28 logits, whatever the vocabulary: half a GiB of 16-bit numbers.
constexpr double logits16 = 0.5;

// GiB of 40 heads of 128 numbers, 16 bits each.
constexpr double turned(double tokens, double blocks) { return tokens * blocks * 40 * 128 * 2 / (1 << 30); }

// GiB of 16-bit norms and activations that products read, `numbers` for each token and block.
constexpr double again(double tokens, double blocks, double numbers) {
  return tokens * blocks * numbers * 2 / (1 << 30);
}
constexpr double gpt_3b_again = again(1024, 24, 2 * 3072 + 12288);  // for each row of a micro-batch
constexpr double llama_again = again(2048, 32, 2 * 4096 + 14336);

// GiB of what goes into the products of frozen experts of Mixtral 8x7B, `each` rows a layer.
constexpr double frozen_rows(double each, double layers) { return each * layers * (4096 + 14336) * 2 / (1 << 30); }
// GiB of the experts' gradients, of 8 layers on 4 ranks: 16 bits a number, and were 32.
constexpr double experts_gradients = 8.0 * 8 * 3 * 4096 * 14336 / 4 * 2 / (1 << 30);

// GiB of float32 numbers of a bucket beyond what passes through staging at once.
constexpr double staged(double elements) { return (elements - (1 << 27)) * 4 / (1 << 30); }
constexpr double gpt_3b_table = 50257.0 * 3072;

const std::vector<Measured> measured{
    {gpt_3b, mixed + "micro_batch = 8\n", 4, 68.58, 8 * gpt_3b_again},
    {gpt_3b, mixed + "micro_batch = 8\n[strategy.fsdp]\n", 4, 33.28, logits16 + 8 * gpt_3b_again},
    {gpt_3b, mixed + "micro_batch = 8\n[strategy.fsdp]\nmode = \"shard_grad_op\"\n", 4, 38.35,
     logits16 + 8 * gpt_3b_again},
    {gpt_3b, mixed + "micro_batch = 8\n[strategy.fsdp]\n[strategy.recompute]\n", 4, 16.39, logits16},
    {gpt_3b, mixed + "micro_batch = 8\n[strategy.zero]\nstage = 1\n", 4, 37.01, logits16 + 8 * gpt_3b_again},
    {gpt_3b, mixed + "micro_batch = 2\naccumulation = 2\n[strategy.zero]\nstage = 3\n", 2, 31.33,
     2 * gpt_3b_again + staged(gpt_3b_table) + gpt_3b_table * 2 / (1 << 30)},
    {bloom_560m, mixed + "micro_batch = 4\naccumulation = 4\n", 1, 13.34},
    {llama_8b, pure + "micro_batch = 2\n", 1, 79.99, 2 * llama_again},
    {llama_8b, mixed + "micro_batch = 1\naccumulation = 8\n" + lora_32, 1, 22.16},
    {llama_8b, mixed + "micro_batch = 2\n[strategy.fsdp]\n", 4, 57.11, 2 * llama_again + staged(128256.0 * 4096)},
    {llama_8b, mixed + "micro_batch = 2\n" + tensor_4, 4, 40.60, 2 * again(2048, 32, 14336.0 / 4)},
    {mixtral_8_layers, mixed + "micro_batch = 4\n" + lora_32, 1, 38.82,
     4 * again(2048, 8, 4096) + frozen_rows(4 * 2048 * 2, 8)},
    {mixtral_8_layers, mixed + "micro_batch = 2\n[strategy.fsdp]\n[strategy.expert_parallel]\nsize = 4\n", 4, 59.74,
     2 * again(2048, 8, 4096) + experts_gradients},
    {mixtral_8x7b, mixed + "micro_batch = 1\naccumulation = 2\n[strategy.expert_parallel]\nsize = 4\n" + lora_32, 4,
     40.17, again(2048, 32, 4096) + frozen_rows(2048 * 2, 32)},
    {mixtral_8x7b, pure + "micro_batch = 1\n[strategy.fsdp]\n[strategy.expert_parallel]\nsize = 4\n", 4, 104.99,
     turned(2048, 32) + again(2048, 32, 4096)},
};

}  // namespace

// 1 %: what is not tensors of a micro-step (kernels' own buffers) is not in a dry run.
TEST_CASE("a peak predicted for H200s is what was measured there") {
  for (const auto& [model, more, ranks, gib, less] : measured) {
    INFO(model << more);
    std::vector<std::string> overrides{"train.max_steps=1", "run.host_memory=1000"};
    if (more.find("expert_parallel") != std::string::npos)
      overrides.emplace_back("strategy.expert_parallel.memory_factor=1");
    const auto job = job_of(cat(model, "[train]\n", more), "cuda", ranks, overrides);
    INFO(job.prediction.activations_note);
    REQUIRE(job.prediction.activations);
    const auto peak = static_cast<double>(layout::total_bytes(job.prediction.footprints, "cuda")) / (1 << 30);
    CHECK(peak == Approx(gib - less).epsilon(0.01));
  }
}

TEST_CASE("rows are predicted as long as they are padded, but no longer than the model's positions") {
  const auto of = [](const std::string& overrides) {
    const auto job = job_of(small(gpt, "bf16", ""), "cuda", 1, {"model.seq_length=512", overrides});
    return std::pair{job.samples.longest_row, dry_run_on_gpu(job).kept};
  };
  const auto [columns, kept] = of("train.pad_to_multiple=1");
  CHECK(columns == length - 1);
  const auto [padded, kept_padded] = of("train.pad_to_multiple=256");
  CHECK(padded == 256);
  CHECK(kept_padded > 3 * kept);
  CHECK(of("train.pad_to_multiple=1024").first == 512);
}

TEST_CASE("whole matrices of an update count where they take more than a micro-step") {
  const auto job = [](const std::string& hidden, const std::string& rows) {
    return job_of(
        small(gpt, "bf16", "[optimizer]\nplugin = \"muon\"\n"), "cuda", 1,
        {"model.hidden_size=" + hidden, "model.ff_dim=" + hidden, "train.micro_batch=" + rows, "data.eval_samples=8"});
  };
  const auto predicted = [](const job::Job& of) {
    std::int64_t bytes = 0;
    for (const auto& part : of.prediction.footprints) bytes += part.when == "update" ? part.bytes : 0;
    return bytes;
  };
  CHECK(predicted(job("64", "64")) == 0);
  const auto large = job("2048", "1");
  const auto step = dry_run_on_gpu(large);
  // A round has 8 of the 2 x 6 square matrices in 16 bits; with each, the iteration has four of its size.
  constexpr std::int64_t matrices = std::int64_t{8} * 2048 * 2048 * 2;
  CHECK(predicted(large) == matrices * (1 + 4) - std::max(step.bytes(), step.evaluation.bytes()));
  // The update is training's.
  const auto& peaks = large.prediction.peaks;
  REQUIRE(peaks.size() == 2);
  const auto whole = layout::total_bytes(large.prediction.footprints, "cuda");
  CHECK(peaks[0].bytes == whole);
  CHECK(peaks[1].bytes == whole - matrices * (1 + 4) + step.evaluation.bytes());
}

TEST_CASE("evaluation counts where it takes more than a micro-step") {
  const auto job = [](const std::vector<std::string>& more, bool sizes_only = false) {
    auto overrides = more;
    overrides.emplace_back("data.eval_samples=64");
    return job_of(small(gpt, "bf16", recompute), "cuda", 1, overrides, sizes_only);
  };
  const auto evaluation = [](const job::Job& of) {
    std::int64_t bytes = 0;
    for (const auto& part : of.prediction.footprints) bytes += part.when.starts_with("evaluation: ") ? part.bytes : 0;
    return bytes;
  };
  CHECK(evaluation(job({"train.eval_batch=1"})) == 0);
  const auto of_loss = job({"train.eval_batch=64", "train.generate_samples=0"});
  INFO(of_loss.prediction.activations_note);
  const auto step = dry_run_on_gpu(of_loss);
  CHECK(step.evaluation_note.empty());
  CHECK_THAT(step.evaluation.peak, Contains("forward of "));
  CHECK(evaluation(of_loss) == step.evaluation.bytes() - step.bytes());
  CHECK(evaluation(of_loss) > 0);
  // Both peaks stand for themselves, and the larger one is the whole.
  const auto total = [](const job::Job& of) { return layout::total_bytes(of.prediction.footprints, "cuda"); };
  REQUIRE(of_loss.prediction.peaks.size() == 2);
  const auto &training = of_loss.prediction.peaks[0], &of_evaluation = of_loss.prediction.peaks[1];
  CHECK(of_evaluation.bytes == total(of_loss));
  CHECK(training.bytes == total(of_loss) - evaluation(of_loss));
  const auto small_ones = job({"train.eval_batch=1"});
  REQUIRE(small_ones.prediction.peaks.size() == 2);
  CHECK(small_ones.prediction.peaks[0].bytes == total(small_ones));
  CHECK(small_ones.prediction.peaks[0].bytes == training.bytes);
  CHECK(small_ones.prediction.peaks[1].bytes < training.bytes);
  CHECK_THAT(of_loss.text(), Contains("training's peak") && Contains("evaluation's peak"));
  CHECK(job_of(small(gpt, "bf16", recompute), "cuda").prediction.peaks.empty());  // it evaluates nothing
  // Also where no file is opened, as when check tries what would help.
  CHECK(evaluation(job({"train.eval_batch=64"}, true)) == evaluation(of_loss));
  // 64 rows of 64 positions, keys and values of 2 layers, 64 numbers of 16 bits each: some of it is there at the
  // loss's peak.
  const auto with_answers =
      dry_run_on_gpu(job({"train.eval_batch=64", "train.generate_samples=-1", "train.max_new_tokens=16"}));
  CHECK(with_answers.evaluation_note.empty());
  CHECK(with_answers.evaluation.bytes() >= std::int64_t{64} * 64 * 2 * 2 * 64 * 2);
}

namespace {

job::Job sharded(std::int64_t room, int rank, const std::string& strategies, setup::Purpose purpose) {
  const test::Folder folder;
  setup::JobRequest request;
  request.file = folder.write("job.toml", small(gpt, "bf16", strategies));
  // An evaluation takes more than a micro-step.
  request.overrides = {"model.hidden_size=256", "train.micro_batch=1",       "train.eval_batch=64",
                       "data.eval_samples=64",  "train.generate_samples=-1", "train.max_new_tokens=16"};
  request.device = "cuda";
  request.world_size = 4;
  request.rank = rank;
  request.gpu_room = room;
  request.activations = true;
  request.purpose = purpose;
  return job_of(request);
}

std::int64_t full_bytes(const job::Job& job) {
  const auto options =
      job::engine_options(job.config, job.topology, job.samples, *job.model, c10::Device(c10::DeviceType::CUDA, 0));
  std::int64_t bytes = 0;
  for (const auto& bucket : shard::make_plan(job.model->own_units(), options).buckets) {
    for (const auto& buffer : bucket.buffers)
      bytes += buffer.lifetime == shard::Lifetime::acquired ? buffer.bytes() : 0;
  }
  return bytes;
}

}  // namespace

TEST_CASE("evaluations keep what they gather if it fits by prediction, and then that is what they take") {
  using setup::Purpose;
  const auto purpose = GENERATE(Purpose::train, Purpose::evaluate, Purpose::generate);
  const std::string strategies = GENERATE(as<std::string>(), "[strategy.fsdp]\n",
                                          "[strategy.fsdp]\ncpu_offload = true\n", lora + "[strategy.nf4]\n");
  INFO("purpose " << static_cast<int>(purpose) << "\n" << strategies);
  const auto unknown = sharded(0, 0, strategies, purpose);
  REQUIRE(unknown.prediction.activations);
  CHECK_FALSE(unknown.prediction.holds);
  const auto step = dry_run_on_gpu(unknown);
  CHECK(step.held.gathered == full_bytes(unknown));
  CHECK(step.held.work >= step.evaluation.work);
  CHECK((step.bytes() > 0) == (purpose == Purpose::train));
  const auto before = layout::total_bytes(unknown.prediction.footprints, "cuda");
  const auto more = std::max(step.held.bytes(), step.bytes()) - std::max(step.evaluation.bytes(), step.bytes());
  REQUIRE(more > 0);
  const auto least = before + more + (before + more) / 20;
  for (const int rank : {0, 1, 2, 3}) {
    const auto fits = sharded(least, rank, strategies, purpose),
               does_not = sharded(least - 1, rank, strategies, purpose);
    CHECK(fits.prediction.holds);
    CHECK(layout::total_bytes(fits.prediction.footprints, "cuda") == before + more);
    const auto& peaks = fits.prediction.peaks;
    CHECK(peaks.size() == (purpose == Purpose::train ? 2 : 0));
    if (!peaks.empty()) CHECK(peaks[1].bytes == before + more);
    if (!peaks.empty()) CHECK(peaks[0].bytes == before + more - (step.held.bytes() - step.bytes()));
    CHECK_THAT(fits.prediction.activations_note, Contains("; an evaluation gathers parameters once"));
    CHECK_FALSE(does_not.prediction.holds);
    CHECK(layout::total_bytes(does_not.prediction.footprints, "cuda") == before);
    CHECK_THAT(does_not.prediction.activations_note, !Contains("gathers parameters once"));
  }
}

TEST_CASE("where nothing is sharded evaluations hold nothing, and take no more") {
  const auto job = sharded(std::int64_t{1} << 40, 0, "[strategy.zero]\nstage = 2\n", setup::Purpose::train);
  CHECK_FALSE(job.prediction.holds);
  CHECK(dry_run_on_gpu(job).held.bytes() == 0);
}

TEST_CASE("where activations cannot be predicted, check says why") {
  // Dropout inside attention is a plain product of tensors, so it is in a dry run too.
  auto job = job_of(small("plugin = \"gpt\"\nattention_dropout = 0.1\n", "bf16", ""), "cuda");
  CHECK(job.prediction.activations);
  CHECK_THAT(job.prediction.activations_note,
             Contains("a micro-batch of 4 x 64 tokens keeps") && Contains("the peak is in"));
  CHECK_THAT(job.text(), Contains("memory of a rank, with activations:"));
  job = job_of(small(gpt, "fp32", ""), "cpu");
  CHECK(!job.prediction.activations);
  CHECK(job.prediction.activations_note.empty());
  CHECK_THAT(job.text(), Contains("memory of a rank, without activations:"));
}

TEST_CASE("an objective's model has rows of its own, and its forwards count at the peak and as work") {
  const auto bytes = [](const job::Job& job, const std::string& part) {
    std::int64_t sum = 0;
    for (const auto& one : job.prediction.footprints) sum += one.part == part ? one.bytes : 0;
    return sum;
  };
  const auto count = [](const auto& all) {
    std::int64_t sum = 0;
    for (const auto& [what, times] : all) sum += times;
    return sum;
  };
  const std::string fsdp = "[strategy.fsdp]\n", distill = "[objective]\nplugin = \"distill\"\nteacher = \"start\"\n";
  const auto alone = job_of(small(llama, "bf16", fsdp), "cuda", 2, {"data.eval_samples=8"});
  for (const std::string option : {"", "top_k = 5\n"}) {
    INFO(option);
    const auto job = job_of(small(llama, "bf16", cat(fsdp, distill, option)), "cuda", 2, {"data.eval_samples=8"});
    INFO(job.prediction.activations_note);
    CHECK(job.prediction.activations);
    CHECK_THAT(job.prediction.activations_note, !Contains("cannot be predicted"));
    // A shard of 16-bit numbers; those of the trained model are float32 too.
    CHECK(bytes(job, "teacher: parameters") > 0);
    CHECK(bytes(job, "teacher: parameters") < bytes(job, "parameters"));
    CHECK(bytes(job, "parameters") == bytes(alone, "parameters"));
    CHECK(bytes(job, "teacher: optimizer state") == 0);
    REQUIRE(job.prediction.work);
    const auto &work = job.prediction.work->micro, &less = alone.prediction.work->micro;
    CHECK(count(work.compute.attention) == 2 * count(less.compute.attention));
    CHECK(count(work.gathers) > count(less.gathers));
    CHECK(job.prediction.work->replayed == 0);
  }
}

}  // namespace predict_test
