// What a micro-step keeps on the meta device against what the CPU's allocator holds after the same forward.
#include "predict/dry_run.h"

#include <ATen/ATen.h>
#include <c10/core/CPUAllocator.h>
#include <capstan/base/text.h>
#include <capstan_catch.h>
#include <torch/library.h>
#include "step/wrap_unit.h"

#include "job/assemble.h"
#include "predict/dry_job.h"
#include "predict/memory_counter.h"
#include "support/families.h"

namespace dry_run_test {

using namespace capstan;
using namespace capstan::testing;

namespace {

// Bytes that tensors of the CPU have, in the blocks that predict::MemoryCounter counts. This program's other tests make
// no threads.
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

// Bytes that a forward on the CPU leaves, its batch included.
std::int64_t really_kept(const job::Job& job, at::ScalarType compute) {
  const auto cpu = c10::Device(c10::DeviceType::CPU);
  const auto list = job::pointers(job.model->units);
  const auto plan = shard::make_plan(list, job::engine_options(job.config, job.topology, job.samples, *job.model, cpu));
  for (const auto& bucket : plan.buckets) {
    for (const auto& planned : bucket.weights) {
      planned.weight->bind(
          at::randn(planned.sharding.shape, at::TensorOptions(compute)).set_requires_grad(bucket.trainable));
    }
  }
  step::UnitRunner runner(list);
  for (std::size_t i = 0; i < list.size(); ++i) step::wrap_unit(job.plugins.strategies, i, runner);
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
  std::int64_t slopes = 0;   ///< ALiBi's, made in the first forward
};

const std::string lora_attention = "[strategy.lora]\nrank = 8\n";
// Which keep their first matrices once more, side by side.
const std::string lora_modules =
    "[strategy.lora]\nrank = 5\ntargets = [\"q_proj\", \"k_proj\", \"v_proj\", \"gate_proj\", \"up_proj\"]\n";
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
                                {llama, lora_modules, 0, 0, layers * (64 + 64)},
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
  for (const auto& model : {gpt, bloom, llama, mistral + "16\n", mixtral}) {
    INFO(model);
    const auto one = kept(model, "", 1);
    const auto two = kept(model, tensor(2, false), 2);
    CHECK(two < one);
    CHECK(two > one / 2);
    CHECK(kept(model, tensor(2, true), 2) < two);
    // Half of the tokens are half of what is kept, but for keys and values that are gathered, and a mask.
    const std::string tokens = "[strategy.context_parallel]\nsize = 2\nmethod = ";
    // BLOOM's heads carry their biases as columns there, which one rank's do not.
    const auto wider = model == bloom ? 1.2 : 1.0;
    CHECK(kept(model, tokens + "\"ulysses\"\n", 2) < 0.6 * wider * one);
    CHECK(kept(model, tokens + "\"gather\"\n", 2) < 0.9 * wider * one);
    CHECK(kept(model, tokens + "\"ring\"\n", 2) < 0.6 * one);
  }
  // Ranks along ep have samples of their own: at an even load as many rows as a single rank has.
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
      // Two ranks have 4 rows of 64 tokens each; a token is 64 numbers of 16 bits.
      constexpr auto bytes = std::int64_t{2} * 4 * 64 * 64 * 2;
      std::int64_t gathered = 0;
      for (const auto& [transfer, times] : job.prediction.work->reductions)
        gathered += transfer.operation == "all-gather" && transfer.bytes == bytes ? times : 0;
      CHECK(gathered == 1);
    }
  }
}

}  // namespace dry_run_test
