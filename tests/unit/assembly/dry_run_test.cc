// What a micro-step keeps on the meta device against what the CPU's allocator holds after the same forward; and what
// was measured on GPUs.
#include "assembly/dry_run.h"

#include <ATen/ATen.h>
#include <c10/core/CPUAllocator.h>
#include <capstan/base/text.h>
#include <capstan/strategy/unit_runner.h>
#include <capstan_catch.h>
#include <torch/library.h>

#include "assembly/wrap.h"
#include "meta/memory_counter.h"
#include "support/families.h"
#include "support/folder.h"
#include "support/job.h"

using namespace capstan;
using Catch::Matchers::Contains;

namespace {

// Bytes that tensors of the CPU have, in the blocks that meta::MemoryCounter counts. This program's other tests make no
// threads.
class CpuMemory final : public c10::Allocator {
 public:
  CpuMemory() : before_(c10::GetCPUAllocator()) { c10::SetCPUAllocator(this, 255); }
  ~CpuMemory() override { c10::SetCPUAllocator(before_, 255); }
  CpuMemory(const CpuMemory&) = delete;
  CpuMemory& operator=(const CpuMemory&) = delete;
  c10::DataPtr allocate(std::size_t bytes) override {
    auto* begin = static_cast<char*>(before_->raw_allocate(bytes + room));
    const auto counted = (static_cast<std::int64_t>(bytes) + 511) / 512 * 512;
    new (begin) Header{before_, counted, now};
    *now += counted;
    return {begin + room, begin + room, &CpuMemory::free, c10::Device(c10::DeviceType::CPU)};
  }
  c10::DeleterFnPtr raw_deleter() const override { return &CpuMemory::free; }
  void copy_data(void* to, const void* from, std::size_t bytes) const override { default_copy_data(to, from, bytes); }

  std::shared_ptr<std::int64_t> now = std::make_shared<std::int64_t>(0);

 private:
  // Before the memory itself, which oneDNN asks for without anything around it.
  struct Header {
    c10::Allocator* allocator;
    std::int64_t bytes;
    std::shared_ptr<std::int64_t> now;
  };
  static constexpr std::size_t room = 64;
  static_assert(sizeof(Header) <= room);
  static void free(void* memory) {
    if (!memory) return;
    auto* begin = static_cast<char*>(memory) - room;
    auto* header = reinterpret_cast<Header*>(begin);
    *header->now -= header->bytes;
    auto* allocator = header->allocator;
    header->~Header();
    allocator->raw_deallocate(begin);
  }
  c10::Allocator* before_;
};

// What GPUs have a kernel for; on CPU ATen composes it of others, which keep more.
std::tuple<at::Tensor, at::Tensor> fused_rms_norm(const at::Tensor& x, at::IntArrayRef,
                                                  const std::optional<at::Tensor>& w, std::optional<double> epsilon) {
  const auto wide = x.to(x.scalar_type() == at::kDouble ? at::kDouble : at::kFloat);
  const auto scale = (wide.square().mean(-1, true) + epsilon.value_or(1e-6)).rsqrt();
  return {(wide * scale * *w).to(x.scalar_type()), scale};
}

constexpr std::int64_t rows = 4, length = 64;  // statistics of so many tokens fill whole blocks

session::Job job_of(const std::string& config, const std::string& device, int world = 1,
                    const std::vector<std::string>& overrides = {}, bool sizes_only = false) {
  const test::Folder folder;
  setup::JobRequest request;
  request.file = folder.write("job.toml", config);
  request.overrides = overrides;
  request.device = device;
  request.world_size = world;
  request.activations = true;
  request.sizes_only = sizes_only;
  return testing::job_of(request);
}

std::string small(const std::string& model, const std::string& precision, const std::string& strategies) {
  return cat("[model]\nvocab_size = 261\nnum_layers = 2\nseq_length = ", length, "\nhidden_size = 64\nnum_heads = 4\n",
             model, "[data]\nplugin = \"synthetic\"\nmax_length = ", length,
             "\n[train]\nmax_steps = 1\nmicro_batch = ", rows, "\nprecision = \"", precision,
             "\"\n[run]\nhost_memory = 1000\n", strategies);
}

nn::Batch real_batch() {
  const auto ids = at::TensorOptions(at::kLong);
  nn::Batch batch;
  batch.tokens = at::randint(261, {rows, length}, ids);
  batch.labels = at::randint(261, {rows, length}, ids);
  batch.positions = at::arange(length, ids).repeat({rows, 1});
  batch.real = at::ones({rows, length}, at::TensorOptions(at::kBool));
  batch.sample_ids = at::arange(rows, ids);
  batch.training = true;
  return batch;
}

assembly::MicroStepMemory dry_run_on_gpu(const session::Job& job) {
  const auto options = assembly::engine_options(job.config, job.topology, job.samples, *job.model,
                                                c10::Device(c10::DeviceType::CUDA, 0));
  return assembly::dry_run({job.config, job.plugins, job.topology, job.samples, options});
}

// Bytes that a forward on the CPU leaves, its batch included.
std::int64_t really_kept(const session::Job& job, at::ScalarType compute) {
  const auto cpu = c10::Device(c10::DeviceType::CPU);
  const auto list = assembly::pointers(job.model->units);
  const auto plan =
      shard::make_plan(list, assembly::engine_options(job.config, job.topology, job.samples, *job.model, cpu));
  for (const auto& bucket : plan.buckets) {
    for (const auto& planned : bucket.weights) {
      planned.weight->bind(
          at::randn(planned.sharding.shape, at::TensorOptions(compute)).set_requires_grad(bucket.trainable));
    }
  }
  strategy::UnitRunner runner(list);
  for (std::size_t i = 0; i < list.size(); ++i) assembly::wrap_unit(job.plugins.strategies, i, runner);
  { const auto warm = runner.forward(real_batch()); }  // what is made once (ALiBi's slopes) is not kept by a step
  const CpuMemory memory;
  const auto hidden = runner.forward(real_batch());
  return *memory.now;
}

struct Case {
  std::string model;
  std::string strategies;
  std::int64_t layer_norms;  ///< whose statistics are kept
  std::int64_t segments;     ///< that are recomputed
  std::int64_t again;        ///< numbers a token that a GPU computes again: norms and activations before products
  std::int64_t slopes = 0;   ///< of ALiBi, made in the first forward
};

const std::string gpt = "plugin = \"gpt\"\nff_dim = 256\ndropout = 0.1\nattention_dropout = 0.0\n";
const std::string bloom = "plugin = \"bloom\"\ndropout = 0.1\n";
const std::string llama = "plugin = \"llama\"\nnum_kv_heads = 2\nff_dim = 160\n";
// 16 of 64 positions are computed in blocks of the window, 48 with a mask over the row.
const std::string mistral = llama + "model_type = \"mistral\"\nsliding_window = ";
const std::string mixtral =
    "plugin = \"mixtral\"\nnum_kv_heads = 2\nff_dim = 96\nnum_experts = 4\nrouter_aux_loss = true\n";
const std::string lora = "[strategy.lora]\nrank = 8\ntargets = [\"linear_qkv\", \"linear_proj\", \"linear_fc1\"]\n";
const std::string lora_attention = "[strategy.lora]\nrank = 8\n";
const std::string recompute = "[strategy.recompute]\n";
// With ALiBi the CPU has no fused attention: left out of the comparison by not keeping its inside.
const std::string recompute_attention = "[strategy.recompute]\nregions = [\"attention\"]\n";

}  // namespace

TEST_CASE("a dry run keeps, byte for byte, what a forward keeps") {
  torch::Library kernels(torch::Library::IMPL, "aten", c10::DispatchKey::CPU, __FILE__, __LINE__);
  kernels.impl("_fused_rms_norm", &fused_rms_norm);
  constexpr std::int64_t layers = 2;
  const std::vector<Case> cases{{gpt, "", 5, 0, layers * (64 + 64 + 256)},
                                {gpt, lora, 5, 0, layers * (64 + 64)},
                                {gpt, recompute, 1, 3, 0},
                                {gpt, recompute + lora, 1, 2, 0},
                                {gpt, recompute_attention, 5, 2, layers * (64 + 256)},
                                {bloom, recompute_attention, 6, 2, layers * (64 + 256), 2},
                                {bloom, recompute_attention + lora, 5, 2, layers * 64, 2},
                                {bloom, recompute, 1, 3, 0, 2},
                                {llama, "", 0, 0, layers * (64 + 64 + 160)},
                                {llama, lora, 0, 0, layers * (64 + 64)},
                                {llama, recompute, 0, 3, 0},
                                {llama, recompute + lora, 0, 2, 0},
                                {mistral + "16\n", "", 0, 0, layers * (64 + 64 + 160)},
                                {mistral + "48\n", recompute, 0, 3, 0},
                                {mistral + "48\n", "", 0, 0, layers * (64 + 64 + 160)},
                                {mixtral, "", 0, 0, layers * 64},
                                {mixtral, lora_attention, 0, 0, layers * 64},
                                {mixtral, recompute, 0, 3, 0},
                                {mixtral, recompute + lora_attention, 0, 2, 0}};
  for (const auto& [model, strategies, layer_norms, segments, again, slopes] : cases) {
    for (const auto* precision : {"fp32", "bf16"}) {
      INFO(model << strategies << precision);
      const auto job = job_of(small(model, precision, strategies), "cpu");
      const bool narrow = std::string(precision) == "bf16";
      auto real = really_kept(job, narrow ? at::kBFloat16 : at::kFloat);
      // A CPU keeps LayerNorm's mean and scale of each row in bfloat16, a GPU in float32.
      if (narrow) real += layer_norms * 2 * 2 * rows * length;
      // A segment's anchor is a number of the host's, on GPUs too. Slopes were there before the forward that was
      // measured.
      real += 512 * (slopes - segments);
      real -= again * rows * length * (narrow ? 2 : 4);
      CHECK(dry_run_on_gpu(job).kept == real);
    }
  }
}

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

// GiB of 16-bit norms and activations that products read: so many numbers a token and block.
constexpr double again(double tokens, double blocks, double numbers) {
  return tokens * blocks * numbers * 2 / (1 << 30);
}
constexpr double gpt_3b_again = again(1024, 24, 2 * 3072 + 12288);  // for each row of a micro-batch
constexpr double llama_again = again(2048, 32, 2 * 4096 + 14336);

// GiB of what goes into the products of frozen experts of Mixtral 8x7B: so many rows a layer.
constexpr double frozen_rows(double each, double layers) { return each * layers * (4096 + 14336) * 2 / (1 << 30); }
// GiB of the experts' gradients, of 8 layers on 4 ranks: 16 bits a number, and were 32.
constexpr double experts_gradients = 8.0 * 8 * 3 * 4096 * 14336 / 4 * 2 / (1 << 30);

// GiB of float32 numbers of a bucket beyond what passes through staging at once.
constexpr double staged(double elements) { return (elements - (1 << 27)) * 4 / (1 << 30); }
constexpr double gpt_3b_table = 50257.0 * 3072;
// GiB of BLOOM's float32 logits: its chunks have 2,048 rows, and had 1,069.
constexpr double more_rows = (2048 - 1069) * 250880.0 * 4 / (1 << 30);

const std::vector<Measured> measured{
    {gpt_3b, mixed + "micro_batch = 8\n", 4, 68.58, 8 * gpt_3b_again},
    {gpt_3b, mixed + "micro_batch = 8\n[strategy.fsdp]\n", 4, 33.28, logits16 + 8 * gpt_3b_again},
    {gpt_3b, mixed + "micro_batch = 8\n[strategy.fsdp]\nmode = \"shard_grad_op\"\n", 4, 38.35,
     logits16 + 8 * gpt_3b_again},
    {gpt_3b, mixed + "micro_batch = 8\n[strategy.fsdp]\n[strategy.recompute]\n", 4, 16.39, logits16},
    {gpt_3b, mixed + "micro_batch = 8\n[strategy.zero]\nstage = 1\n", 4, 37.01, logits16 + 8 * gpt_3b_again},
    {gpt_3b, mixed + "micro_batch = 2\naccumulation = 2\n[strategy.zero]\nstage = 3\n", 2, 31.33,
     2 * gpt_3b_again + staged(gpt_3b_table) + gpt_3b_table * 2 / (1 << 30)},
    {bloom_560m, mixed + "micro_batch = 4\naccumulation = 4\n", 1, 12.57, -more_rows},
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

TEST_CASE("a dry run takes the strategies' part of the work off a rank") {
  const auto kept = [](const std::string& model, const std::string& strategies, int ranks) {
    const auto job = job_of(small(model, "bf16", strategies), "cuda", ranks);
    INFO(model << strategies << job.prediction.activations_note);
    REQUIRE(job.prediction.activations);
    return static_cast<double>(dry_run_on_gpu(job).kept);
  };
  const auto tensor = [](int size, bool sequence) {
    return cat("[strategy.tensor_parallel]\nsize = ", size, "\nsequence_parallel = ", sequence ? "true" : "false",
               "\n");
  };
  for (const auto& model : {gpt, bloom, llama, mixtral}) {
    INFO(model);
    const auto one = kept(model, "", 1);
    const auto two = kept(model, tensor(2, false), 2);
    CHECK(two < one);
    CHECK(two > one / 2);
    CHECK(kept(model, tensor(2, true), 2) < two);
  }
  // Ranks along ep have samples of their own: at an even load as many rows as one rank has alone.
  const std::string experts = "[strategy.expert_parallel]\nsize = 2\nmemory_factor = ";
  const auto even = kept(mixtral, experts + "1\n", 2);
  CHECK(even > kept(mixtral, "", 1));  // rows also as they leave and arrive
  CHECK(kept(mixtral, experts + "1.5\n", 2) > even);
}

TEST_CASE("sharding changes what is gathered at the peak, packing what is kept") {
  const auto step = [](const std::string& strategies, int ranks, const std::vector<std::string>& overrides = {}) {
    const auto job = job_of(small(gpt, "bf16", strategies), "cuda", ranks, overrides);
    INFO(strategies << job.prediction.activations_note);
    REQUIRE(job.prediction.activations);
    return dry_run_on_gpu(job);
  };
  CHECK(step("", 2).gathered == 0);
  const auto full = step("[strategy.fsdp]\n", 2);
  CHECK(full.gathered > 0);
  CHECK(step("[strategy.fsdp]\nmode = \"shard_grad_op\"\n", 2).gathered > full.gathered);
  CHECK(step("[strategy.fsdp]\n", 2).kept == full.kept);
  // A reduction holds a bucket's gradients until the next one's begins.
  CHECK(step("", 2).work >= step("", 1).work);
  CHECK(step("", 1, {"data.packing=true"}).kept >= step("", 1).kept);
}

TEST_CASE("a table whose lookups' gradient is rows is predicted, in memory and in work") {
  for (const auto* strategies : {"", "[strategy.fsdp]\n", "[strategy.recompute]\n"}) {
    for (const auto& model : {bloom, llama}) {
      INFO(model << strategies);
      const auto job = job_of(small(model, "bf16", strategies), "cuda", 2, {"model.vocab_size=2003"});
      CHECK(job.prediction.activations_note.find("cannot be predicted") == std::string::npos);
      REQUIRE(job.prediction.work);
      // On two ranks 4 rows of 64 tokens each, of 64 numbers of 16 bits.
      constexpr auto bytes = std::int64_t{2} * 4 * 64 * 64 * 2;
      std::int64_t gathered = 0;
      for (const auto& [transfer, times] : job.prediction.work->reductions)
        gathered += transfer.operation == "all-gather" && transfer.bytes == bytes ? times : 0;
      CHECK(gathered == 1);
    }
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

TEST_CASE("evaluation counts where it takes more than a micro-step") {
  const auto job = [](const std::vector<std::string>& more, bool sizes_only = false) {
    auto overrides = more;
    overrides.emplace_back("data.eval_samples=64");
    return job_of(small(gpt, "bf16", recompute), "cuda", 1, overrides, sizes_only);
  };
  const auto evaluation = [](const session::Job& of) {
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
  // Also where no file is opened, as when check tries what would help.
  CHECK(evaluation(job({"train.eval_batch=64"}, true)) == evaluation(of_loss));
  // 64 rows of 64 positions, keys and values of 2 layers, 64 numbers of 16 bits each: some of it beside the loss's
  // peak.
  const auto with_answers =
      dry_run_on_gpu(job({"train.eval_batch=64", "train.generate_samples=8", "train.max_new_tokens=16"}));
  CHECK(with_answers.evaluation_note.empty());
  CHECK(with_answers.evaluation.bytes() >= std::int64_t{64} * 64 * 2 * 2 * 64 * 2);
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
