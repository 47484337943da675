// Attention to a cache: the kernel against ATen's products on the CPU in float64, from the same rounded numbers.
#include <ATen/ATen.h>
#include <capstan/base/files.h>
#include <capstan/base/log.h>
#include <capstan_catch.h>
#include <capstan_places.h>
#include "comm/connect.h"

#include <fstream>
#include <optional>
#include <vector>

#include "generation/generate.h"
#include "gpu/compare.h"
#include "ops/decode_attention.h"
#include "support/folder.h"
#include "support/job.h"

namespace decode_test {

using namespace capstan;
using namespace capstan::ops;
using capstan::testing::numbers;

namespace {

// A rounding of each type's results, and some of float32's in the sums before, where ALiBi's scores reach 160.
const double roundings[] = {1e-12, 1e-5, 1.0 / 128, 1.0 / 1024};

// Heads and types that no kernel takes: queries, scores and probabilities are rounded too.
bool by_products(std::int64_t dim, at::ScalarType type) { return at::elementSize(type) > 2 || dim % 8 != 0; }

struct Case {
  std::int64_t heads, kv_heads, dim, capacity;
  std::vector<std::int64_t> positions;
  std::optional<std::int64_t> window = {};
  bool alibi = false;
};

// What follows a row's own position would be seen at once if it were read.
DecodeAttention inputs_of(const Case& one, at::ScalarType type) {
  const auto rows = static_cast<std::int64_t>(one.positions.size());
  DecodeAttention how;
  how.q = numbers({rows, one.heads, 1, one.dim}, 0.1).mul(2).to(type);
  how.k = numbers({rows, one.kv_heads, 1, one.dim}, 0.5).to(type);
  how.v = numbers({rows, one.kv_heads, 1, one.dim}, 0.9).to(type);
  how.keys = numbers({rows, one.kv_heads, one.capacity, one.dim}, 0.3).to(type);
  how.values = numbers({rows, one.kv_heads, one.capacity, one.dim}, 0.7).to(type);
  how.positions = at::tensor(one.positions, at::kLong).unsqueeze(1);
  for (std::int64_t row = 0; row < rows; ++row) {
    const auto filled = one.positions[static_cast<std::size_t>(row)];
    how.keys[row].slice(1, filled).fill_(300);
    how.values[row].slice(1, filled).fill_(300);
  }
  const auto exact = at::pow(0.5, at::arange(1, one.heads + 1, at::kDouble));
  if (one.alibi) how.slopes = exact.to(type == at::kDouble ? at::kDouble : at::kFloat);
  how.scale = 0.3;
  how.window = one.window.value_or(one.capacity);
  return how;
}

DecodeAttention converted(const DecodeAttention& how, const at::TensorOptions& options) {
  auto other = how;
  for (auto* tensor : {&other.q, &other.k, &other.v, &other.keys, &other.values})
    *tensor = tensor->to(options, false, /*copy=*/true);
  other.positions = how.positions.to(options.device());
  if (how.slopes.defined())
    other.slopes = how.slopes.to(options.device(), other.q.scalar_type() == at::kDouble ? at::kDouble : at::kFloat);
  return other;
}

void check(const Case& one) {
  for (int i = 0; i < 4; ++i) {
    INFO("type " << i << ", heads " << one.heads << " of " << one.kv_heads << ", dim " << one.dim << ", capacity "
                 << one.capacity << (one.alibi ? ", ALiBi" : ""));
    const auto narrow = inputs_of(one, float_types[i]);
    const auto on_device = converted(narrow, at::TensorOptions(float_types[i]).device(at::kCUDA));
    const auto wide = converted(narrow, at::TensorOptions(at::kDouble).device(at::kCPU));
    const auto got = decode_attention(on_device), expected = decode_attention(wide);
    CHECK(got.scalar_type() == float_types[i]);
    CHECK(distance(got, expected) < roundings[i] * (by_products(one.dim, float_types[i]) ? 4 : 1));
    // The new token has joined the cache, and nothing else has changed.
    CHECK(at::equal(on_device.keys.cpu().to(at::kDouble), wide.keys));
    CHECK(at::equal(on_device.values.cpu().to(at::kDouble), wide.values));
  }
}

}  // namespace

TEST_CASE("GPU: attention to a cache, of rows of different lengths", "[decode]") {
  const std::vector<std::int64_t> positions{0, 1, 37, 255, 256, 99, 318};
  const bool alibi = GENERATE(false, true);
  check({8, 8, 64, 320, positions, {}, alibi});
  check({8, 4, 128, 320, positions, {}, alibi});
  check({8, 2, 128, 320, positions, {}, alibi});
  check({6, 2, 80, 320, positions, {}, alibi});
  check({14, 2, 64, 320, positions, {}, alibi});
  check({16, 2, 128, 320, positions, {}, alibi});
  check({20, 2, 256, 320, positions, {}, alibi});
  check({3, 3, 8, 320, positions, {}, alibi});
  check({5, 1, 20, 320, positions, {}, alibi});  // no kernel takes 40 bytes
}

TEST_CASE("GPU: attention to a cache of several blocks of keys, and through windows", "[decode]") {
  const std::vector<std::int64_t> positions{0, 511, 512, 513, 1023, 1024, 1500, 3};
  check({8, 2, 128, 1501, positions});
  check({4, 4, 64, 1501, positions, {}, true});
  for (const std::int64_t window : {1, 2, 100, 512, 513, 4000}) check({8, 2, 128, 1501, positions, window});
  check({8, 1, 64, 320, {0, 4, 5, 319}, 5});
}

TEST_CASE("GPU: a row's bits do not depend on other rows, nor on how much room there is", "[decode]") {
  const Case all{8, 2, 128, 700, {20, 650, 511, 512}};
  const auto options = at::TensorOptions(at::kBFloat16).device(at::kCUDA);
  const auto how = converted(inputs_of(all, at::kBFloat16), options);
  const auto together = decode_attention(how);
  for (std::int64_t row = 0; row < 4; ++row) {
    auto alone = how;
    for (auto* tensor : {&alone.q, &alone.k, &alone.v, &alone.positions}) *tensor = tensor->narrow(0, row, 1);
    for (auto* tensor : {&alone.keys, &alone.values})
      *tensor = at::constant_pad_nd(tensor->narrow(0, row, 1), {0, 0, 0, 900});
    alone.window = 1600;
    CHECK(at::equal(decode_attention(alone), together.narrow(0, row, 1)));
  }
}

TEST_CASE("GPU: queries, keys and values may lie in one product", "[decode]") {
  const Case one{4, 4, 64, 40, {7, 39, 20}};
  const auto apart = converted(inputs_of(one, at::kBFloat16), at::TensorOptions(at::kBFloat16).device(at::kCUDA));
  auto fused = apart;
  const auto product =
      at::stack({apart.q.squeeze(2), apart.k.squeeze(2), apart.v.squeeze(2)}, 2);  // [B, heads, 3, dim]
  fused.q = product.select(2, 0).unsqueeze(2);
  fused.k = product.select(2, 1).unsqueeze(2);
  fused.v = product.select(2, 2).unsqueeze(2);
  CHECK(at::equal(decode_attention(fused), decode_attention(apart)));
}

namespace {

const std::string sizes = "vocab_size = 512\nhidden_size = 256\nnum_layers = 2\nnum_heads = 4\nseq_length = 700\n";
const std::string bloom = "[model]\nplugin = \"bloom\"\n" + sizes;
const std::string llama = "[model]\nplugin = \"llama\"\nnum_kv_heads = 2\nff_dim = 192\n" + sizes;
const std::string mixtral = "[model]\nplugin = \"mixtral\"\nnum_kv_heads = 1\nff_dim = 192\nnum_experts = 4\n" + sizes;

struct Generated {
  std::vector<std::string> answers;
  std::string log;
};

// 20 prompts of 1 to 620 tokens, eight at once. A token of 29 ends an answer, so that rows take other prompts at
// different times.
Generated generate(const std::string& model, const std::vector<std::string>& overrides, bool holds = false) {
  const test::Folder folder;
  const auto file = folder.path() / "job.toml", log_file = folder.path() / "log";
  std::ofstream(file) << "[run]\nseed = 3\ndevice = \"cuda\"\n" + model +
                             "[data]\nplugin = \"squad\"\ntrain = \"" CAPSTAN_SOURCE_DIR
                             "/configs/data/mini_squad_train.json\"\nmax_length = 200\n"
                             "[train]\nmax_steps = 1\neval_batch = 8\nmax_new_tokens = 40\n";
  setup::JobRequest request;
  request.file = file.string();
  request.overrides = overrides;
  log::configure(log_file.string(), log::Level::warning, 0);
  auto job = capstan::testing::job_of(request);
  job.prediction.holds = holds;
  const auto alone = comm::connect({});
  auto session = step::materialise(job, *alone);
  std::vector<generation::Prompt> prompts;
  for (std::int64_t i = 0; i < 20; ++i) {
    std::vector<std::int64_t> tokens;
    for (std::int64_t t = 0; t <= i * i * 620 / 361; ++t) tokens.push_back(32 + (t * t + 7 * i) % 90);
    prompts.push_back({tokens, i});
  }
  execution::AnswerEnd end;
  for (std::int64_t id = 7; id < 512; id += 29) end.ids.push_back(id);
  Generated generated{generation::Generator(session).answer_batches(prompts, end), {}};
  log::configure("", log::Level::warning, 0);
  generated.log = read_file(log_file);
  return generated;
}

}  // namespace

TEST_CASE("GPU: tokens that a graph generates are those of eager steps", "[decode][graphs]") {
  const std::string precision = GENERATE("bf16", "fp32");
  const std::string temperature = GENERATE("0", "1.5");
  for (const auto& model : {bloom, llama, mixtral}) {
    if (model == mixtral && precision == "fp32") continue;  // experts in float32 ask how many tokens each has
    const std::vector<std::string> overrides{"train.precision=" + precision, "train.temperature=" + temperature};
    auto off = overrides;
    off.emplace_back("train.cuda_graphs=off");
    const auto got = generate(model, overrides), expected = generate(model, off);
    INFO(precision << ", temperature " << temperature << "\n" << model << got.log);
    CHECK(got.answers == expected.answers);
    CHECK(got.log.find("generated by a CUDA graph") != std::string::npos);
    CHECK(got.log.find("not generated by a CUDA graph") == std::string::npos);
    CHECK(expected.log.find("generated by a CUDA graph") == std::string::npos);
  }
}

TEST_CASE("GPU: tokens are generated by a graph where parameters come from host memory, if they are held",
          "[decode][graphs]") {
  const std::string more = GENERATE("[strategy.fsdp]\ncpu_offload = true\n",
                                    "[strategy.fsdp]\ncpu_offload = true\nlimit_all_gathers = false\n",
                                    "[strategy.lora]\nrank = 4\n[strategy.nf4]\n");
  const std::vector<std::string> overrides{"train.precision=bf16"};
  const auto each = generate(more + llama, overrides), held = generate(more + llama, overrides, true);
  INFO(more << each.log << held.log);
  CHECK(held.answers == each.answers);
  CHECK(held.log.find("tokens of 8 rows are generated by a CUDA graph") != std::string::npos);
  CHECK(each.log.find("tokens are not generated by a CUDA graph: parameters move") != std::string::npos);
}

TEST_CASE("GPU: rows that take other prompts give the answers of one prompt at a time", "[decode][graphs]") {
  const std::string temperature = GENERATE("0", "1.5");
  for (const auto& model : {bloom, llama}) {
    const std::vector<std::string> overrides{"train.precision=fp64", "train.temperature=" + temperature};
    auto alone = overrides;
    alone.emplace_back("train.eval_batch=1");
    INFO("temperature " << temperature << "\n" << model);
    CHECK(generate(model, overrides).answers == generate(model, alone).answers);
  }
}

}  // namespace decode_test
