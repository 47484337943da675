// The step times that the figures of plan/gpus/*.json give, against those that tools/bench measured on H200s.
#include "step_time/step_time.h"

#include <capstan/base/files.h>
#include <capstan/base/json.h>
#include <capstan/base/text.h>
#include <capstan_catch.h>
#include <capstan_places.h>

#include "support/folder.h"
#include "support/job.h"

namespace step_time_test {

using namespace capstan;

namespace {

// A measured run: the last row of this case in a record, of this program where it names some.
struct Measured {
  std::string record;
  std::string run;
  std::string program;
  std::string model;
  std::string more;
  int ranks = 1;
  double most = 0.10;  ///< the share by which the prediction may be wrong
};

const std::string of_2048_tokens = "[data]\nplugin = \"synthetic\"\nmax_length = 2049\n";
const std::string llama = "[model]\nplugin = \"llama\"\npreset = \"llama3.1-8b\"\n" + of_2048_tokens;
const std::string llama_8192 =
    "[model]\nplugin = \"llama\"\npreset = \"llama3.1-8b\"\nseq_length = 8192\n[data]\nplugin = "
    "\"synthetic\"\nmax_length = 8193\n";
const std::string mixtral = "[model]\nplugin = \"mixtral\"\npreset = \"mixtral-8x7b\"\n" + of_2048_tokens;
const std::string mixtral_8l =
    "[model]\nplugin = \"mixtral\"\npreset = \"mixtral-8x7b\"\nnum_layers = 8\n" + of_2048_tokens;
const std::string bloom =
    "[model]\nplugin = \"bloom\"\npreset = \"bloom-560m\"\n[data]\nplugin = \"synthetic\"\nmax_length = 513\n";
const std::string gpt =
    "[model]\nplugin = \"gpt\"\nvocab_size = 50257\nhidden_size = 3072\nnum_layers = 24\nnum_heads = "
    "24\nff_dim = 12288\nseq_length = 1024\ndropout = 0.0\n[data]\nplugin = "
    "\"synthetic\"\nmax_length = 1025\n";
const std::string adapters = "[strategy.lora]\nrank = 32\ntargets = [\"linear_qkv\", \"linear_proj\"]\n";
std::string model(const std::string& plugin, const std::string& preset) {
  return cat("[model]\nplugin = \"", plugin, "\"\npreset = \"", preset, "\"\n", of_2048_tokens);
}
const std::string qwen3 = model("qwen3", "qwen3-30b-a3b");
const std::string narrow = "[strategy.lora]\nrank = 16\ntargets = [\"linear_qkv\", \"linear_proj\"]\n";
const std::string all_linear = "[strategy.lora]\nrank = 16\ntargets = [\"all-linear\"]\n";
const std::string in_8_bits = "[strategy.fp8]\n", in_4_bits = "[strategy.nf4]\n";
const std::string mixed = "precision = \"bf16\"\n", pure = "precision = \"bf16_pure\"\n";
const std::string experts_4 = "[strategy.expert_parallel]\nsize = 4\n";
const std::string fused = "6dbedaa";

std::string batch(int micro_batch, int accumulation) {
  return cat("micro_batch = ", micro_batch, "\naccumulation = ", accumulation, "\n");
}

const std::vector<Measured>& measured() {
  static const std::vector<Measured> all{
      {"bloom-qwen3-2xh200", "bloom-560m:train.micro_batch=16,train.accumulation=1", "", bloom, mixed + batch(16, 1)},
      {"bloom-qwen3-2xh200", "bloom-560m", "", bloom, mixed + batch(4, 4)},
      {"bloom-qwen3-2xh200", "qwen3-30b-lora:strategy.lora.rank=16", "", qwen3, mixed + batch(2, 1) + narrow},
      {"bloom-qwen3-2xh200", "qwen3-30b-lora:strategy.lora.rank=16,strategy.fp8.store=fp8_both", "", qwen3,
       mixed + batch(2, 1) + narrow + in_8_bits + "store = \"fp8_both\"\n"},
      {"families-1xh200", "gemma3-4b-lora", "", model("gemma3", "gemma3-4b-text"), mixed + batch(2, 4) + all_linear},
      {"families-1xh200", "glm4-9b-lora", "", model("glm4", "glm4-9b-0414"), mixed + batch(2, 4) + all_linear},
      {"families-1xh200", "gpt-oss-20b-lora", "", model("gpt_oss", "gpt-oss-20b"), mixed + batch(2, 4) + all_linear},
      {"families-1xh200", "gpt-oss-20b-attention", "", model("gpt_oss", "gpt-oss-20b"), mixed + batch(2, 4) + narrow},
      {"families-1xh200", "qwen35-4b-lora", "", model("qwen3_5", "qwen3.5-4b"), mixed + batch(2, 4) + all_linear},
      {"models-peers-a-1xh200", "bloom-560m:train.cuda_graphs=off", "", bloom,
       mixed + batch(4, 4) + "cuda_graphs = \"off\"\n", 1, 0.3},  // a miss: that host was faster than most
      {"models-peers-b-1xh200", "llama-8b-lora", "", llama, mixed + batch(1, 8) + adapters},
      {"models-peers-b-1xh200", "llama-8b-lora:train.micro_batch=4,train.accumulation=2", "", llama,
       mixed + batch(4, 2) + adapters},
      {"models-peers-b-1xh200", "llama-8b-lora:strategy.fp8.recipe=rowwise", "", llama,
       mixed + batch(1, 8) + adapters + in_8_bits},
      {"models-peers-b-1xh200", "llama-8b-lora:train.micro_batch=4,train.accumulation=2,strategy.fp8.recipe=rowwise",
       "", llama, mixed + batch(4, 2) + adapters + in_8_bits},
      {"models-peers-a-1xh200", "mixtral-8l-lora:strategy.fp8.recipe=rowwise", "", mixtral_8l,
       mixed + batch(4, 1) + adapters + in_8_bits},
      {"models-peers-2xh200",
       "llama-8b+full_shard@2:train.micro_batch=1,data.max_length=8193,model.seq_length=8192,strategy.fp8.recipe="
       "rowwise",
       "", llama_8192, mixed + batch(1, 1) + "[strategy.fsdp]\n" + in_8_bits, 2},
      {"models-peers-b-1xh200", "llama-8b-lora+nf4", "", llama, mixed + batch(1, 8) + adapters + in_4_bits},
      {"models-peers-b-1xh200", "llama-8b-lora+nf4:train.micro_batch=4,train.accumulation=2", "", llama,
       mixed + batch(4, 2) + adapters + in_4_bits},
      {"models-peers-a-1xh200", "mixtral-8x7b-lora+nf4", "", mixtral, mixed + batch(1, 2) + adapters + in_4_bits},
      {"models-peers-2xh200", "llama-8b+full_shard@2:train.micro_batch=1,data.max_length=8193,model.seq_length=8192",
       "", llama_8192, mixed + batch(1, 1) + "[strategy.fsdp]\n", 2},
      {"models-peers-2xh200", "bloom-560m@2:train.micro_batch=16,train.accumulation=1", "", bloom, mixed + batch(16, 1),
       2, 0.15},  // both are of the program before BLOOM's heads stayed at 64 columns
      {"models-peers-2xh200", "bloom-560m+full_shard@2:train.micro_batch=16,train.accumulation=1", "", bloom,
       mixed + batch(16, 1) + "[strategy.fsdp]\n", 2, 0.15},
      {"models-before-after-h200", "llama-8b:train.precision=bf16_pure", fused, llama, pure + batch(2, 1)},
      {"models-peers-a-1xh200", "mixtral-8l-lora", "", mixtral_8l, mixed + batch(4, 1) + adapters},
      {"models-fused-4xh200", "llama-8b+full_shard@4", "", llama, mixed + batch(2, 1) + "[strategy.fsdp]\n", 4},
      {"models-fused-4xh200", "mixtral-8l+ep4+full_shard@4", "", mixtral_8l,
       mixed + batch(2, 1) + "[strategy.fsdp]\n" + experts_4, 4},
      {"models-fused-4xh200", "llama-8b+tp4+sp@4", "", llama,
       mixed + batch(2, 1) + "[strategy.tensor_parallel]\nsize = 4\nsequence_parallel = true\n", 4},
      {"models-fused-4xh200", "mixtral-8x7b-lora+ep4@4", "", mixtral, mixed + batch(1, 2) + adapters + experts_4, 4,
       0.12},  // nearly a miss: its experts' grouped products of few rows run at two thirds of the rate of large
               // products
      {"models-fused-4xh200", "llama-8b-lora@4", "", llama, mixed + batch(1, 8) + adapters, 4},
      {"models-4xh200", "mixtral-8l+tp2+ep2+full_shard@4", "", mixtral_8l,
       mixed + batch(2, 1) +
           "[strategy.fsdp]\n[strategy.tensor_parallel]\nsize = 2\n[strategy.expert_parallel]\nsize = 2\n",
       4, 0.19},  // a miss: the program before its passes were fused, which also had experts' gradients in float32
      {"models-4xh200", "llama-8b+tp2+full_shard@4", "", llama,
       mixed + batch(2, 1) + "[strategy.fsdp]\n[strategy.tensor_parallel]\nsize = 2\n", 4},
      // A miss: this record is of the program before its losses and passes were fused.
      {"gpt-2.88b-fsdp-4xh200", "fsdp-full_shard", "", gpt, mixed + batch(8, 1) + "[strategy.fsdp]\n", 4, 0.25},
      {"gpt-2.88b-offload-2-of-4xh200", "zero-2-offload", "", gpt,
       mixed + batch(2, 2) + "[strategy.zero]\nstage = 2\noffload_optimizer = \"cpu\"\n", 2}};
  return all;
}

// 0: not among them. Where a call measured twice, the first counts: the second shows the host's noise.
double seconds_among(const Json& results, const Measured& row) {
  for (const auto& result : results) {
    const bool is_program = row.program.empty() || result.value("program", "") == row.program;
    if (result.at("case") == row.run && is_program && result.contains("step_s"))
      return result.at("step_s").get<double>();
  }
  return 0;
}

// By the last call of a record that measured it.
double measured_seconds(const Measured& row) {
  const auto json = Json::parse(read_file(cat(CAPSTAN_SOURCE_DIR, "/tools/bench/records/", row.record, ".json")));
  double seconds = json.contains("results") ? seconds_among(json.at("results"), row) : 0;
  if (json.contains("calls")) {
    for (const auto& call : json.at("calls")) {
      if (const auto found = seconds_among(call.at("results"), row); found > 0) seconds = found;
    }
  }
  REQUIRE(seconds > 0);
  return seconds;
}

job::Job job_of(const Measured& row) {
  const test::Folder folder;
  setup::JobRequest request;
  request.file =
      folder.write("job.toml", cat(row.model, "[train]\nmax_steps = 1\n", row.more, "[run]\nhost_memory = 1000\n"));
  request.device = "cuda";
  request.world_size = row.ranks;
  request.activations = request.sizes_only = true;
  return testing::job_of(request);
}

}  // namespace

TEST_CASE("predicted step times are those that were measured on H200s") {
  const auto figures = plan::figures_of("h200-141g");
  REQUIRE(figures);
  std::string table;
  for (const auto& row : measured()) {
    const auto job = job_of(row);
    REQUIRE(job.prediction.work);
    const auto time = plan::step_time(*job.prediction.work, job.topology.batch.accumulation, *figures);
    const auto seconds = measured_seconds(row);
    const auto ratio = time.total() / seconds;
    const auto& compute = job.prediction.work->micro.compute;
    table += cat(row.run, " @", row.ranks, ": ", time.total(), " of ", seconds, " s, ratio ", ratio, " (kernels ",
                 compute.kernels, ", GB ", compute.bytes / 1e9, ")\n", plan::step_time_table(time));
    INFO(table);
    CHECK(ratio == Approx(1).epsilon(row.most));
  }
  if (std::getenv("CAPSTAN_SHOW_TIMES")) std::fputs(table.c_str(), stdout);
}

TEST_CASE("products in float32 have a rate of their own") {
  plan::Figures figures;
  figures.product_flops = 1e12;
  figures.single_product_flops = 5e11;
  figures.bytes_per_second = figures.update_bytes_per_second = figures.host_elements = 1e9;
  plan::StepWork work;
  plan::Product product{1000, 1000, 1000, 1000};
  product.single = true;
  work.micro.compute.products[product] = 500;
  work.micro.compute.kernels = 500;
  CHECK(plan::step_time(work, 2, figures).products == Approx(4));
}

TEST_CASE("grouped products take whole tiles of columns, and more rows in each group") {
  plan::Figures figures;
  figures.product_flops = 1e12;
  figures.grouped_product_flops = 5e11;
  figures.eight_bit_grouped_product_flops = 1e12;
  figures.bytes_per_second = figures.update_bytes_per_second = figures.host_elements = 1e9;
  const auto seconds = [&](std::int64_t rows, std::int64_t columns, std::int64_t groups, bool eight_bits) {
    plan::StepWork work;
    plan::Product product{rows, columns, 1000};
    product.groups = groups;
    product.eight_bits = eight_bits;
    work.micro.compute.products[product] = 1;
    return plan::step_time(work, 1, figures).products;
  };
  const auto whole = seconds(1000000, 256, 1, false);
  CHECK(whole == Approx(2 * 1000046.0 * 256 * 1000 / 5e11));
  CHECK(seconds(1000000, 256, 1, true) == Approx(whole / 2));
  CHECK(seconds(1000000, 257, 1, false) == Approx(2 * whole));
  CHECK(seconds(46000, 256, 1000, false) == Approx(2 * 92000.0 * 256 * 1000 / 5e11));
}

TEST_CASE("a step's parts follow from its work") {
  plan::Figures figures;
  figures.product_flops = 1e12;
  figures.bytes_per_second = figures.update_bytes_per_second = 1e9;
  figures.host_elements = 1e6;
  figures.all_gather_bytes = figures.reduce_scatter_bytes = figures.all_reduce_bytes = figures.all_to_all_bytes = 1e6;
  figures.attention_flops = figures.attention_backward_flops = 1e12;
  figures.host_link_bytes = 1e6;
  figures.interference = 0.5;
  plan::StepWork work;
  work.micro.compute.products[{1000, 1000, 1000, 1000}] = 500;  // 1 s
  work.micro.compute.kernels = 500;
  auto time = plan::step_time(work, 2, figures);
  CHECK(time.products == Approx(2));
  CHECK(time.total() == Approx(2));
  // Collectives during computation cost it a part of their time; what is longer than it is waited for.
  work.reductions[{"reduce-scatter", 2, 1, 2000000}] = 1;  // 1 s
  CHECK(plan::step_time(work, 2, figures).engine_wait == Approx(0.5));
  work.reductions[{"reduce-scatter", 2, 1, 2000000}] = 3;
  CHECK(plan::step_time(work, 2, figures).engine_wait == Approx(1 + 0.5 * 2));
  work.reductions.clear();
  work.micro.waited[{"all-reduce", 4, 1, 1000000}] = 1;  // 1.5 s a micro-step
  CHECK(plan::step_time(work, 2, figures).layers_wait == Approx(3));
  work.micro.waited.clear();
  // Products of 8 bits have a rate of their own; what a codec writes counts whole.
  figures.eight_bit_product_flops = 4e12;
  figures.decoded_bytes = 1e9;
  plan::StepWork narrow;
  plan::Product product{1000, 1000, 1000, 1000};
  product.eight_bits = true;
  narrow.micro.compute.products[product] = 500;
  narrow.micro.gathers[{"decode", 1, 1, 1000000000}] = narrow.micro.later_gathers[{"decode", 1, 1, 1000000000}] = 2;
  time = plan::step_time(narrow, 2, figures);
  CHECK(time.products == Approx(0.5));
  CHECK(time.decoding == Approx(4));
  CHECK(time.total() == Approx(4.5));
  figures.eight_bit_block_product_flops = 1e12;
  product.in_blocks = true;
  narrow.micro.compute.products = {{product, 500}};
  CHECK(plan::step_time(narrow, 2, figures).products == Approx(2));
  // The host launches more slowly than the GPU computes.
  figures.host_kernel_seconds = 3e-3;
  time = plan::step_time(work, 2, figures);
  CHECK(time.host_wait == Approx(1));
  CHECK(time.total() == Approx(3));
  figures.host_kernel_seconds = 0;
  // What an optimizer does with whole matrices comes after all that, and hides all but two of their exchanges.
  work.whole_flops = 2e12;
  auto& exchanges = work.whole_parts[{"all-to-all", 2, 1, 1000000}];  // 0.5 s each
  exchanges = 4;
  CHECK(plan::step_time(work, 2, figures).update == Approx(2 + 1));
  exchanges = 10;
  CHECK(plan::step_time(work, 2, figures).update == Approx(4 + 1));
  work.whole_flops = 0;
  exchanges = 1;  // and one alone is not waited for twice
  CHECK(plan::step_time(work, 2, figures).update == Approx(0.5));
  work.whole_parts.clear();
  work.host_elements = 3e6;
  CHECK(plan::step_time(work, 2, figures).offload == Approx(3));
}

TEST_CASE("a GPU waits for copies to host memory as far as they take longer than what it computes meanwhile") {
  plan::Figures figures;
  figures.product_flops = 1e12;
  figures.bytes_per_second = figures.update_bytes_per_second = 1e9;
  figures.host_elements = 1;
  plan::Computing second;
  second.compute.products[{1000, 1000, 1000, 1000}] = 500;
  second.compute.kernels = 500;
  // As recompute does it: a copy may take as long as two parts of forward, and comes back during one of backward.
  constexpr std::int64_t bytes = 2000000;
  plan::StepWork work;
  work.micro.copies = {{{}, bytes, 0}, {second, bytes, 1}, {second, 0, 0}, {{}, bytes, 3},
                       {second, 0, 1}, {{}, bytes, 5},     {second, 0, 3}, {{}, 0, 5}};
  for (const auto& copy : work.micro.copies) add(work.micro, copy.before);
  const auto waits = [&](double rate) {
    figures.host_link_bytes = rate;
    const auto time = plan::step_time(work, 3, figures);
    CHECK(time.products == Approx(3 * 4));
    CHECK(time.total() == Approx(time.products + time.host_wait + time.copies_wait));
    return time.copies_wait / 3;
  };
  CHECK(waits(2e6) == Approx(0).margin(1e-9));
  // Of 2 s each, copies end at 2, 4, 6 and 8. The first is awaited at 2, the second at 3, the others after that at 5
  // and at 6, when they end.
  CHECK(waits(1e6) == Approx(1 + 1 + 2));
  CHECK(waits(0.5e6) == Approx(4 * 4 - 4));
  CHECK_THAT(plan::step_time_table(plan::step_time(work, 3, figures)),
             Contains("activations' copies to host memory, not hidden  36000.0"));
  // A host that launches more slowly leaves copies more time.
  figures.host_kernel_seconds = 4e-3;
  CHECK(waits(1e6) == Approx(0).margin(1e-9));
  // In a stage they are a part of its action.
  figures.host_kernel_seconds = 0;
  auto of_stage = work;
  of_stage.actions = {{{strategy::Action::Kind::forward, 0, 0}, work.micro}};
  const auto position = plan::step_time(std::vector{of_stage}, 3, figures).positions.at(0);
  CHECK(position.seconds_of({strategy::Action::Kind::forward, 0, 2}) == Approx(4 + 4));
}

TEST_CASE("longer rows are attended to at a higher rate, up to the longest that was measured") {
  plan::Figures figures;
  figures.product_flops = figures.bytes_per_second = figures.update_bytes_per_second = figures.host_elements = 1;
  figures.attention_flops = 2e12;
  figures.attention_backward_flops = 1e12;
  figures.attention_growth = 0.5;
  const auto attention = [&](std::int64_t columns, bool is_backward, bool segments = false, std::int64_t width = 128) {
    plan::StepWork work;
    const plan::AttentionShape shape{1, columns, columns, width, true, segments};
    (is_backward ? work.micro.compute.attention_backward : work.micro.compute.attention)[shape] = 1;
    return plan::step_time(work, 1, figures).attention / shape.flops();
  };
  CHECK(attention(512, false) == Approx(1 / 2e12));
  CHECK(attention(2048, false) == Approx(1 / 2e12));
  CHECK(attention(4096, false) == Approx(1 / 3e12));
  CHECK(attention(8192, true) == Approx(2.5 / 2e12));
  CHECK(attention(131072, true) == Approx(2.5 / 4e12));
  CHECK(attention(1 << 20, true) == Approx(2.5 / 4e12));
  CHECK(attention(131072, false, true) == Approx(1 / 2e12));  // segments have the rate of short rows
  CHECK(attention(2048, false, false, 64) == Approx(1 / 2e12));
  CHECK(attention(2048, false, true, 64) == Approx(1 / 1.12e12));
  CHECK(attention(2048, true, false, 256) == Approx(2.5 / 0.7e12));
}

// Measured on one H200; the longest took "some 45 s".
TEST_CASE("predicted step times of long rows are those that were measured on an H200") {
  struct Row {
    std::int64_t tokens;
    std::string recompute;
    double seconds;
    double most;
  };
  for (const auto& [tokens, recompute, seconds, most] :
       {Row{32768, "", 32768 / 6630.0, 0.05}, Row{32768, "regions = [\"mlp\"]\n", 32768 / 7630.0, 0.05},
        Row{131072, "", 45, 0.08}}) {
    Measured row;
    row.model = cat("[model]\nplugin = \"llama\"\npreset = \"llama3.1-8b\"\nseq_length = ", tokens,
                    "\n[data]\nplugin = \"synthetic\"\nmax_length = ", tokens + 1, "\n");
    row.more = cat(mixed, batch(1, 1), "[strategy.lora]\nrank = 16\ntargets = [\"all-linear\"]\n[strategy.recompute]\n",
                   recompute);
    const auto job = job_of(row);
    REQUIRE(job.prediction.work);
    const auto time = plan::step_time(job.prediction.work_of_positions(), 1, *plan::figures_of("h200-141g"));
    INFO(tokens << " " << recompute << ": " << time.total() << " s, measured " << seconds << "\n"
                << plan::step_time_table(time));
    CHECK(time.total() == Approx(seconds).epsilon(most));
  }
}

TEST_CASE("what crosses nodes has a time only where their bandwidth is known") {
  const auto figures = *plan::figures_of("h200-141g");
  plan::StepWork work;
  work.reductions[{"all-reduce", 16, 2, 1000000000}] = 1;
  const auto unknown = plan::step_time(work, 1, figures);
  CHECK(unknown.total() == 0);
  CHECK_THAT(unknown.unknown, Contains("no bandwidth between nodes is known"));
  const auto known = plan::step_time(work, 1, figures, 50e9);
  CHECK(known.total() == Approx(2 * 15.0 / 16 * 1e9 / 50e9).epsilon(0.01));
}

}  // namespace step_time_test
