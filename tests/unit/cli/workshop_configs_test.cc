// The workshop's experiments, value by value: documents 000 and 001 (NeMo), 003 (FSDP) and 004 (ZeRO).
#include <capstan_catch.h>
#include <capstan_places.h>

#include <filesystem>
#include <map>
#include <set>
#include <string>

#include "config/document.h"

namespace workshop_configs_test {

using namespace capstan;
using config::Value;
namespace fs = std::filesystem;

namespace {

using Options = std::map<std::string, Value>;

const fs::path& folder() {
  static const fs::path path = fs::path(CAPSTAN_SOURCE_DIR) / "configs" / "workshop";
  return path;
}

Options options_of(const std::string& file) {
  Diagnostics diagnostics;
  const auto document = config::load(folder() / file, {}, diagnostics);
  diagnostics.throw_if_any();
  Options out;
  const auto take = [&](const config::Section& section) {
    for (const auto& entry : section.entries) out[section.path + "." + entry.key] = entry.value;
  };
  for (const auto& table : config::table_names()) take(document.section(table));
  for (const auto& section : document.children("strategy")) take(section);
  return out;
}

Value number(std::int64_t value) { return value; }

// What both exercises say of the training.
Options shared() {
  return {{"data.plugin", "squad"},
          {"data.max_length", number(512)},
          {"data.train_samples", number(500)},
          {"train.precision", "fp16"},
          {"train.drop_last", true},
          {"optimizer.lr", 5e-5},
          {"optimizer.weight_decay", 0.01},
          {"optimizer.betas", std::vector<double>{0.9, 0.999}},
          {"optimizer.eps", 1e-8},
          {"optimizer.clip", 1.0}};
}

// The model of both, with its own tokenizer: these are all of its options, and data.tokenizer is not set.
Options bloom() { return {{"model.plugin", "bloom"}, {"model.path", "bigscience/bloom-560m"}}; }

// The custom model of the FSDP exercise.
Options custom() {
  return {{"model.plugin", "gpt"},
          {"model.vocab_size", number(50000)},
          {"model.hidden_size", number(2048)},
          {"model.num_layers", number(3)},
          {"model.num_heads", number(16)},
          {"model.ff_dim", number(8192)},
          {"model.seq_length", number(512)},
          {"model.attention_dropout", 0.0},
          {"data.tokenizer", "../../../data/gpt_tokenizer"}};
}

Options with(Options options, const Options& more) {
  for (const auto& [key, value] : more) options[key] = value;
  return options;
}

Options fsdp(const Options& model, const Options& more = {}) {
  return with(with(with(shared(), model), {{"data.eval_samples", number(100)},
                                           {"train.epochs", number(5)},
                                           {"train.micro_batch", number(1)},
                                           {"train.accumulation", number(4)},
                                           {"strategy.fsdp.mode", "full_shard"},
                                           {"strategy.fsdp.backward_prefetch", "post"},
                                           {"strategy.fsdp.forward_prefetch", true},
                                           {"strategy.fsdp.sync_module_states", true}}),
              more);
}

Options weak_fsdp(std::int64_t layers, std::int64_t batch) {
  return fsdp(
      custom(),
      {{"model.num_layers", number(layers)}, {"train.micro_batch", number(batch)}, {"train.accumulation", number(1)}});
}

Options baseline(const Options& model) {
  return with(with(shared(), model), {{"data.eval_samples", number(50)},
                                      {"train.epochs", number(3)},
                                      {"train.micro_batch", number(4)},
                                      {"train.accumulation", number(4)},
                                      {"train.eval_batch", number(4)},
                                      {"checkpoint.every_epoch", true},
                                      {"checkpoint.keep_best", true}});
}

// ZeRO's exercise trains on the whole sequence, padded to 512.
Options whole(const Options& model) {
  return with(baseline(model), {{"data.loss", "sequence"}, {"train.pad_to_multiple", number(512)}});
}

Options zero(std::int64_t stage, const Options& more = {}) {
  auto options = whole(bloom());
  options["strategy.zero.stage"] = number(stage);
  for (const auto& [key, value] : more) options["strategy.zero." + key] = value;
  return options;
}

Options weak_zero(std::int64_t samples) { return with(zero(0), {{"data.train_samples", number(samples)}}); }

// The NeMo exercises: 250 steps of 8 samples whatever the number of GPUs.
Options nemo(const std::string& plugin, const std::string& path, const Options& strategies) {
  return with({{"model.plugin", plugin},
               {"model.path", path},
               {"data.plugin", "squad"},
               {"data.max_length", number(2048)},
               {"train.max_steps", number(250)},
               {"train.micro_batch", number(1)},
               {"train.global_batch", number(8)},
               {"train.precision", "bf16"},
               {"optimizer.lr", 1e-4},
               {"optimizer.weight_decay", 0.1},
               {"optimizer.warmup_steps", number(50)},
               {"optimizer.schedule", "cosine"}},
              strategies);
}

Options llama(const Options& strategies) { return nemo("llama", "meta-llama/Llama-3.1-8B", strategies); }
Options mixtral(const Options& strategies) {
  return with(nemo("mixtral", "mistralai/Mixtral-8x7B-v0.1", strategies), {{"model.router_aux_loss", true}});
}

Options experts(std::int64_t size) { return {{"strategy.expert_parallel.size", number(size)}}; }

// Adapters, data parallel: the frozen model is whole on every rank.
Options adapters(const Options& more) {
  return with({{"strategy.fsdp.mode", "no_shard"},
               {"strategy.lora.rank", number(32)},
               {"strategy.lora.targets", std::vector<std::string>{"linear_qkv", "linear_proj"}}},
              more);
}

// No adapters: the model is split.
Options split(std::int64_t tensor, std::int64_t expert) {
  Options options{{"strategy.fsdp.mode", "full_shard"}};
  if (tensor > 1) {
    options["strategy.tensor_parallel.size"] = number(tensor);
    options["strategy.tensor_parallel.sequence_parallel"] = true;
  }
  return expert > 1 ? with(options, experts(expert)) : options;
}

// The same where it fits, in addition to the exact ones.
Options offloaded(std::int64_t tensor, std::int64_t expert) {
  return with(split(tensor, expert), {{"strategy.fsdp.cpu_offload", true}});
}

std::map<std::string, Options> nemo_experiments() {
  return {{"nemo/data_parallel/llama31_8b_lora.toml", llama(adapters({}))},
          {"nemo/data_parallel/mixtral_8x7b_lora.toml", mixtral(adapters(experts(2)))},
          {"nemo/model_parallel/llama31_8b_tp2.toml", llama(split(2, 1))},
          {"nemo/model_parallel/llama31_8b_tp4.toml", llama(split(4, 1))},
          {"nemo/model_parallel/llama31_8b_tp8.toml", llama(split(8, 1))},
          {"nemo/model_parallel/mixtral_8x7b_tp1_ep4.toml", mixtral(split(1, 4))},
          {"nemo/model_parallel/mixtral_8x7b_tp2_ep2.toml", mixtral(split(2, 2))},
          {"nemo/model_parallel/mixtral_8x7b_tp4_ep1.toml", mixtral(split(4, 1))},
          {"nemo/model_parallel/mixtral_8x7b_tp4_ep2.toml", mixtral(split(4, 2))},
          {"nemo/model_parallel/mixtral_8x7b_tp1_ep4_offload.toml", mixtral(offloaded(1, 4))},
          {"nemo/model_parallel/mixtral_8x7b_tp2_ep2_offload.toml", mixtral(offloaded(2, 2))},
          {"nemo/model_parallel/mixtral_8x7b_tp4_ep1_offload.toml", mixtral(offloaded(4, 1))},
          {"nemo/model_parallel/mixtral_8x7b_tp4_ep2_offload.toml", mixtral(offloaded(4, 2))}};
}

std::map<std::string, Options> fsdp_experiments() {
  const auto of_bloom = [](const std::string& option, const Value& value) {
    return fsdp(bloom(), {{"strategy.fsdp." + option, value}});
  };
  return {{"fsdp/full_shard.toml", fsdp(bloom())},
          {"fsdp/shard_grad_op.toml", of_bloom("mode", "shard_grad_op")},
          {"fsdp/hybrid_shard.toml", of_bloom("mode", "hybrid_shard")},
          {"fsdp/no_shard.toml", of_bloom("mode", "no_shard")},
          {"fsdp/full_shard_cpu_offload.toml", of_bloom("cpu_offload", true)},
          {"fsdp/custom_gpt.toml", fsdp(custom())},
          {"fsdp/weak_scaling_2_gpus.toml", weak_fsdp(3, 8)},
          {"fsdp/weak_scaling_4_gpus.toml", weak_fsdp(6, 4)},
          {"fsdp/weak_scaling_8_gpus.toml", weak_fsdp(12, 2)},
          {"fsdp/weak_scaling_16_gpus.toml", weak_fsdp(24, 1)}};
}

std::map<std::string, Options> zero_experiments() {
  const Options optimizer{{"offload_optimizer", "cpu"}}, both{{"offload_optimizer", "cpu"}, {"offload_param", "cpu"}};
  const Options pageable{{"pin_memory", false}}, pinned{{"pin_memory", true}};
  return {{"zero/zero0.toml", zero(0)},
          {"zero/zero1.toml", zero(1)},
          {"zero/zero2.toml", zero(2)},
          {"zero/zero3.toml", zero(3)},
          {"zero/zero1_cpu_offload.toml", zero(1, with(optimizer, pageable))},
          {"zero/zero2_cpu_offload.toml", zero(2, with(optimizer, pageable))},
          {"zero/zero2_cpu_offload_pinned_memory.toml", zero(2, with(optimizer, pinned))},
          {"zero/zero3_cpu_offload.toml", zero(3, with(both, pageable))},
          {"zero/zero3_cpu_offload_pinned_memory.toml", zero(3, with(both, pinned))},
          {"zero/weak_scaling_2_gpus.toml", weak_zero(500)},
          {"zero/weak_scaling_4_gpus.toml", weak_zero(1000)},
          {"zero/weak_scaling_8_gpus.toml", weak_zero(2000)},
          {"zero/weak_scaling_16_gpus.toml", weak_zero(4000)},
          {"zero/weak_scaling.toml", with(weak_zero(87599), {{"data.samples_per_rank", number(250)}})},
          {"zero/baseline.toml", whole(bloom())}};
}

std::map<std::string, Options> experiments() {
  std::map<std::string, Options> all{{"baseline.toml", with(baseline(bloom()), {{"train.generate_samples", number(-1)},
                                                                                {"train.generate_each_eval", true}})},
                                     {"custom_gpt.toml", baseline(custom())}};
  for (auto&& part : {fsdp_experiments(), zero_experiments(), nemo_experiments()}) all.insert(part.begin(), part.end());
  return all;
}

}  // namespace

TEST_CASE("each experiment of the workshop has a configuration with its values") {
  for (const auto& [file, expected] : experiments()) {
    const auto options = options_of(file);
    for (const auto& [name, value] : expected) {
      INFO(file << ": " << name);
      REQUIRE(options.contains(name));
      CHECK(config::value_text(options.at(name)) == config::value_text(value));
    }
    // An option of the model or of a strategy that is not expected would change the experiment.
    for (const auto& [name, value] : options) {
      INFO(file << ": " << name << " = " << config::value_text(value));
      const bool counts = name.starts_with("strategy.") || name.starts_with("model.") || name == "data.tokenizer";
      CHECK((!counts || expected.contains(name)));
    }
  }
}

TEST_CASE("each configuration of the workshop's folder is one of its experiments") {
  std::set<std::string> files;
  for (const auto& entry : fs::recursive_directory_iterator(folder())) {
    const auto file = fs::relative(entry.path(), folder()).string();
    if (entry.path().extension() == ".toml" && !file.starts_with("base/")) files.insert(file);
  }
  std::set<std::string> tested;
  for (const auto& [file, options] : experiments()) tested.insert(file);
  CHECK(files == tested);
}

}  // namespace workshop_configs_test
