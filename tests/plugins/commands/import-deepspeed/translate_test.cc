#include "plugins/commands/import-deepspeed/translate.h"

#include "config/document.h"

#include <capstan/base/files.h>
#include <capstan/base/text.h>
#include <capstan/setup/host_schemas.h>
#include <capstan_catch.h>
#include <capstan_places.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <map>
#include <set>

namespace translate_test {

using namespace capstan;
using config::Value;

namespace {

using Options = std::map<std::string, Value>;

// The options of a TOML text, by full name, read as a run reads its configuration.
Options options_of(const std::string& toml) {
  auto folder = (std::filesystem::temp_directory_path() / "capstan-deepspeed-XXXXXX").string();
  REQUIRE(::mkdtemp(folder.data()) != nullptr);
  const auto file = std::filesystem::path(folder) / "imported.toml";
  write_file(file, toml);
  Diagnostics diagnostics;
  const auto document = config::load(file, {}, diagnostics);
  std::filesystem::remove_all(folder);
  INFO(toml);
  REQUIRE(diagnostics.empty());
  Options out;
  const auto take = [&](const config::Section& section) {
    for (const auto& entry : section.entries) out[section.path + "." + entry.key] = entry.value;
  };
  for (const auto& table : config::table_names()) take(document.section(table));
  for (const auto& section : document.children("strategy")) take(section);
  return out;
}

// For comparing and for reading: an option a line.
std::string text(const Options& options) {
  std::string out;
  for (const auto& [name, value] : options) out += cat(name, " = ", config::value_text(value), "\n");
  return out;
}

import_deepspeed::Translated import_text(const std::string& json) {
  return import_deepspeed::translate("ds.json", json);
}

std::string workshop_file(const std::string& name) {
  return CAPSTAN_SOURCE_DIR "/tests/plugins/commands/import-deepspeed/deepspeed/" + name + ".json";
}

Options import_workshop(const std::string& name) {
  return options_of(import_deepspeed::translate(name + ".json", read_file(workshop_file(name))).toml);
}

// What every file of the workshop says of the training.
Options workshop_options(const Options& zero) {
  Options all{{"train.precision", "fp16"}, {"train.loss_scale_window", std::int64_t{1000}},
              {"optimizer.lr", 5e-5},      {"optimizer.betas", std::vector<double>{0.9, 0.999}},
              {"optimizer.eps", 1e-8},     {"optimizer.weight_decay", 0.01},
              {"optimizer.clip", 1.0}};
  for (const auto& [key, value] : zero) all["strategy.zero." + key] = value;
  return all;
}

const std::map<std::string, Options>& workshop() {
  static const std::map<std::string, Options> files{
      {"zero0", {{"stage", std::int64_t{0}}}},
      {"zero1", {{"stage", std::int64_t{1}}}},
      {"zero1_cpu_offload", {{"stage", std::int64_t{1}}, {"offload_optimizer", "cpu"}, {"pin_memory", false}}},
      {"zero2", {{"stage", std::int64_t{2}}}},
      {"zero2_cpu_offload", {{"stage", std::int64_t{2}}, {"offload_optimizer", "cpu"}, {"pin_memory", false}}},
      {"zero2_cpu_offload_pinned_memory",
       {{"stage", std::int64_t{2}}, {"offload_optimizer", "cpu"}, {"pin_memory", true}}},
      {"zero3", {{"stage", std::int64_t{3}}}},
      {"zero3_cpu_offload",
       {{"stage", std::int64_t{3}}, {"offload_optimizer", "cpu"}, {"offload_param", "cpu"}, {"pin_memory", false}}},
      {"zero3_cpu_offload_pinned_memory",
       {{"stage", std::int64_t{3}}, {"offload_optimizer", "cpu"}, {"offload_param", "cpu"}, {"pin_memory", true}}}};
  return files;
}

// A file with every key that is taken over, none of them at "auto".
constexpr const char* everything = R"({
  "train_batch_size": 32, "train_micro_batch_size_per_gpu": 4, "gradient_accumulation_steps": 4,
  "gradient_clipping": 0.5, "communication_data_type": "fp32",
  "optimizer": {"type": "Adam", "params": {"lr": 1e-4, "betas": [0.9, 0.95], "eps": 1e-7, "weight_decay": 0.1,
                                           "adam_w_mode": true}},
  "scheduler": {"type": "WarmupDecayLR", "params": {"warmup_max_lr": 1e-4, "warmup_num_steps": 50,
                                                    "total_num_steps": 250, "warmup_min_lr": 0}},
  "fp16": {"enabled": true, "loss_scale": 0, "initial_scale_power": 12, "loss_scale_window": 500,
           "min_loss_scale": 2, "hysteresis": 2},
  "zero_optimization": {"stage": 3, "overlap_comm": false, "reduce_bucket_size": 5e8, "contiguous_gradients": true,
                        "offload_optimizer": {"device": "cpu", "pin_memory": true, "ratio": 0.75},
                        "offload_param": {"device": "none", "pin_memory": false}}})";

// What the option is called and which types it may have: the host's own schema, the strategy's names and AdamW's.
std::map<std::string, std::set<std::size_t>> known_options() {
  const auto integer = Value(std::int64_t{0}).index(), number = Value(0.0).index(), text = Value("").index(),
             boolean = Value(false).index(), numbers = Value(std::vector<double>{}).index();
  std::map<std::string, std::set<std::size_t>> known{{"strategy.zero.stage", {integer}},
                                                     {"strategy.zero.offload_optimizer", {text}},
                                                     {"strategy.zero.offload_ratio", {number, integer}},
                                                     {"strategy.zero.offload_param", {text}},
                                                     {"strategy.zero.pin_memory", {boolean}},
                                                     {"strategy.zero.bucket_size", {integer}},
                                                     {"strategy.zero.overlap", {boolean}},
                                                     {"strategy.zero.reduce_dtype", {text}},
                                                     {"optimizer.plugin", {text}},
                                                     {"optimizer.betas", {numbers}},
                                                     {"optimizer.eps", {number}},
                                                     {"train.loss_scale", {text}},
                                                     {"train.loss_scale_init", {integer}},
                                                     {"train.loss_scale_window", {integer}},
                                                     {"train.loss_scale_min", {integer, number}}};
  const std::map<config::Type, std::set<std::size_t>> types{{config::Type::boolean, {boolean}},
                                                            {config::Type::integer, {integer}},
                                                            {config::Type::number, {integer, number}},
                                                            {config::Type::string, {text}},
                                                            {config::Type::numbers, {numbers}}};
  for (const auto& [table, schema] : setup::host_schemas()) {
    for (const auto& spec : schema) {
      if (types.contains(spec.type)) known[table + "." + spec.key] = types.at(spec.type);
    }
  }
  return known;
}

void check_accepted(const Options& options) {
  const auto known = known_options();
  for (const auto& [name, value] : options) {
    INFO(name << " = " << config::value_text(value));
    REQUIRE(known.contains(name));
    CHECK(known.at(name).contains(value.index()));
  }
}

// The faults of a text, each as "where: what (fix)".
std::vector<std::string> faults_of(const std::string& json) {
  std::vector<std::string> out;
  try {
    import_text(json);
  } catch (const Error& error) {
    for (const auto& fault : error.diagnostics())
      out.push_back(cat(fault.where, ": ", fault.what, " (", fault.fix, ")"));
  }
  return out;
}

bool has_note(const import_deepspeed::Translated& imported, const std::string& note) {
  return std::find(imported.notes.begin(), imported.notes.end(), note) != imported.notes.end() &&
         imported.toml.find("\n# " + note + "\n") != std::string::npos;
}

}  // namespace

TEST_CASE("every DeepSpeed file of the workshop becomes the same training") {
  for (const auto& [name, zero] : workshop()) {
    INFO(name);
    const auto options = import_workshop(name);
    CHECK(text(options) == text(workshop_options(zero)));
    check_accepted(options);
  }
}

TEST_CASE("no file of the workshop is left out") {
  std::set<std::string> files;
  for (const auto& entry :
       std::filesystem::directory_iterator(CAPSTAN_SOURCE_DIR "/tests/plugins/commands/import-deepspeed/deepspeed"))
    files.insert(entry.path().stem().string());
  std::set<std::string> tested;
  for (const auto& [name, zero] : workshop()) tested.insert(name);
  CHECK(files == tested);
}

TEST_CASE("every key that has an option of ours is taken over with its value") {
  const auto imported = import_text(everything);
  const auto options = options_of(imported.toml);
  check_accepted(options);
  CHECK(text(options) == text(Options{{"train.global_batch", std::int64_t{32}},
                                      {"train.micro_batch", std::int64_t{4}},
                                      {"train.accumulation", std::int64_t{4}},
                                      {"train.max_steps", std::int64_t{250}},
                                      {"train.precision", "fp16"},
                                      {"train.loss_scale", "auto"},
                                      {"train.loss_scale_init", std::int64_t{4096}},
                                      {"train.loss_scale_window", std::int64_t{500}},
                                      {"train.loss_scale_min", std::int64_t{2}},
                                      {"optimizer.clip", 0.5},
                                      {"optimizer.lr", 1e-4},
                                      {"optimizer.betas", std::vector<double>{0.9, 0.95}},
                                      {"optimizer.eps", 1e-7},
                                      {"optimizer.weight_decay", 0.1},
                                      {"optimizer.schedule", "linear"},
                                      {"optimizer.warmup_from_zero", true},
                                      {"optimizer.warmup_steps", std::int64_t{50}},
                                      {"strategy.zero.stage", std::int64_t{3}},
                                      {"strategy.zero.overlap", false},
                                      {"strategy.zero.reduce_dtype", "fp32"},
                                      {"strategy.zero.bucket_size", std::int64_t{500'000'000}},
                                      {"strategy.zero.offload_optimizer", "cpu"},
                                      {"strategy.zero.offload_param", "none"},
                                      {"strategy.zero.offload_ratio", 0.75},
                                      {"strategy.zero.pin_memory", true}}));
  CHECK(has_note(imported, "zero_optimization.contiguous_gradients is not taken over: always so"));
  CHECK(has_note(imported, "optimizer.params.adam_w_mode is not taken over: always so"));
  CHECK(has_note(imported, "fp16.hysteresis is not taken over: the scale is halved by every step that overflows"));
  CHECK(imported.notes.size() == 5);  // and warmup_min_lr, warmup_type
}

TEST_CASE("what DeepSpeed does without a key is written out where ours would differ") {
  CHECK(text(options_of(import_text("{}").toml)) ==
        "optimizer.clip = 0.0\nstrategy.zero.stage = 0\ntrain.precision = \"fp32\"\n");
  const auto options = options_of(import_text(R"({"bf16": {"enabled": true}, "optimizer": {"type": "AdamW"}})").toml);
  CHECK(config::value_text(options.at("train.precision")) == "\"bf16\"");
  CHECK(config::value_text(options.at("optimizer.lr")) == "0.001");
  CHECK(config::value_text(options.at("optimizer.weight_decay")) == "0.0");
}

TEST_CASE("auto leaves an option out and says so") {
  const auto imported = import_text(R"({"train_micro_batch_size_per_gpu": "auto", "gradient_clipping": "auto",
    "optimizer": {"type": "AdamW", "params": {"lr": "auto", "betas": "auto", "eps": "auto", "weight_decay": "auto"}},
    "scheduler": {"type": "WarmupLR", "params": {"warmup_max_lr": "auto", "warmup_num_steps": "auto"}},
    "fp16": {"enabled": "auto", "loss_scale": 0}, "bf16": {"enabled": "auto"},
    "zero_optimization": {"stage": 2, "reduce_bucket_size": "auto", "stage3_prefetch_bucket_size": "auto"}})");
  CHECK(text(options_of(imported.toml)) ==
        "optimizer.schedule = \"constant\"\noptimizer.warmup_from_zero = true\nstrategy.zero.stage = 2\n"
        "train.loss_scale = \"auto\"\n");
  for (const char* line :
       {"\n# micro_batch: \"auto\" (train_micro_batch_size_per_gpu), as in [train]\n",
        "\n# lr: \"auto\" (optimizer.params.lr), as in [optimizer]\n",
        "\n# clip: \"auto\" (gradient_clipping), as in [optimizer]\n",
        "\n# precision: \"auto\" (fp16.enabled, bf16.enabled), as in [train]\n",
        "\n# bucket_size: \"auto\" (zero_optimization.reduce_bucket_size), as in [strategy.zero]\n"}) {
    CHECK_THAT(imported.toml, Contains(line));
  }
  CHECK(has_note(imported,
                 "zero_optimization.stage3_prefetch_bucket_size is not taken over: the next bucket is always gathered "
                 "ahead"));
}

TEST_CASE("details of fp16 are not taken over where fp16 is off") {
  const auto imported = import_text(R"({"fp16": {"enabled": false, "loss_scale": 128}, "bf16": {"enabled": true}})");
  CHECK_FALSE(options_of(imported.toml).contains("train.loss_scale"));
  CHECK(has_note(imported, "fp16.loss_scale is not taken over: fp16 is not enabled"));
}

TEST_CASE("what belongs to a dynamic loss scale is not taken over with a fixed one, and no default is added") {
  const auto imported = import_text(R"({"fp16": {"enabled": true, "loss_scale": 128, "initial_scale_power": 12,
    "loss_scale_window": 500, "min_loss_scale": 2}})");
  CHECK(text(options_of(imported.toml)) ==
        "optimizer.clip = 0.0\nstrategy.zero.stage = 0\ntrain.loss_scale = \"128\"\ntrain.precision = \"fp16\"\n");
  for (const char* key : {"initial_scale_power", "loss_scale_window", "min_loss_scale"})
    CHECK(has_note(imported, cat("fp16.", key, " is not taken over: fp16.loss_scale is fixed")));
}

TEST_CASE("a share of the optimizer is not taken over where it is not offloaded; dtypes in any letters") {
  const auto imported = import_text(
      R"({"communication_data_type": "FP16", "zero_optimization": {"stage": 2, "offload_optimizer": {"ratio": 0.5}}})");
  CHECK(text(options_of(imported.toml)) ==
        "optimizer.clip = 0.0\nstrategy.zero.reduce_dtype = \"fp16\"\nstrategy.zero.stage = 2\n"
        "train.precision = \"fp32\"\n");
  CHECK(has_note(imported,
                 "zero_optimization.offload_optimizer.ratio is not taken over: the optimizer is not offloaded"));
}

TEST_CASE("a scheduler's absent parameters are DeepSpeed's defaults, and what differs is said") {
  const auto scheduled = [](const std::string& scheduler) {
    return import_text(
        cat(R"({"optimizer": {"type": "AdamW", "params": {"lr": 5e-5}}, "scheduler": )", scheduler, "}"));
  };
  const auto option = [](const import_deepspeed::Translated& imported, const char* name) {
    return config::value_text(options_of(imported.toml).at(cat("optimizer.", name)));
  };
  const std::string linear = R"(scheduler.params.warmup_type is absent, "log" for DeepSpeed: the warm-up is linear)";

  const auto warmup = scheduled(R"({"type": "WarmupLR"})");
  CHECK(option(warmup, "schedule") == "\"constant\"");
  CHECK(option(warmup, "warmup_steps") == "1000");
  CHECK(option(warmup, "lr") == "5e-05");
  CHECK(has_note(warmup, linear));
  CHECK(has_note(warmup,
                 "scheduler.params.warmup_max_lr is absent: the warm-up ends at optimizer.params.lr, in "
                 "DeepSpeed's older versions at 0.001"));
  CHECK(option(import_text(R"({"scheduler": {"type": "WarmupLR"}})"), "lr") == "0.001");

  const auto decay = scheduled(R"({"type": "WarmupDecayLR", "params": {"total_num_steps": 20}})");
  CHECK(option(decay, "warmup_steps") == "1000");
  CHECK(option(decay, "lr") == "0.001");
  CHECK(has_note(decay,
                 "optimizer.params.lr is not taken over: WarmupDecayLR goes up to scheduler.params.warmup_max_lr, "
                 "which is absent, 0.001 for DeepSpeed"));

  const auto cosine = scheduled(R"({"type": "WarmupCosineLR", "params": {"total_num_steps": 20}})");
  CHECK(option(cosine, "lr") == "5e-05");
  CHECK(option(cosine, "warmup_steps") == "1000");
  CHECK(has_note(cosine, linear));
  CHECK(option(cosine, "min_lr") == "5e-09");
  const auto higher = scheduled(R"({"type": "WarmupCosineLR", "params": {"cos_min_ratio": 0.5}})");
  CHECK(option(higher, "min_lr") == "2.5e-05");
  CHECK(has_note(import_text(R"({"optimizer": {"type": "AdamW", "params": {"lr": "auto"}},
                                 "scheduler": {"type": "WarmupCosineLR"}})"),
                 "scheduler.params.cos_min_ratio is not taken over: set optimizer.min_lr to 1e-04 of optimizer.lr"));

  const auto said = import_text(R"({"scheduler": {"type": "WarmupLR", "params": {"warmup_max_lr": 1e-4,
    "warmup_num_steps": 7, "warmup_type": "linear"}}})");
  CHECK(option(said, "lr") == "1e-04");
  CHECK(option(said, "warmup_steps") == "7");
  CHECK(said.notes.size() == 1);  // warmup_type is not taken over
}

TEST_CASE("what Capstan does not do is refused with file, key and what to do") {
  const std::vector<std::pair<std::string, std::string>> refused{
      {R"({"zero_optimization": {"stage": 2, "offload_param": {"device": "cpu"}}})",
       "ds.json: zero_optimization.offload_param.device offloads the parameters, but zero_optimization.stage is 2, "
       "where "
       "every rank computes with all (use stage 3, or remove offload_param)"},
      {R"({"zero_optimization": {"stage": 2, "cpu_offload_params": true}})",
       "ds.json: zero_optimization.cpu_offload_params offloads the parameters"},
      {R"({"zero_optimization": {"offload_optimizer": {"device": "cpu"}}})",
       "ds.json: zero_optimization.offload_optimizer.device offloads the optimizer, but zero_optimization.stage is 0, "
       "where nothing is cut (use stage 1 or higher, or remove offload_optimizer)"},
      {R"({"zero_optimization": {"stage": 3, "offload_optimizer": {"device": "nvme", "nvme_path": "/tmp"}}})",
       "ds.json: zero_optimization.offload_optimizer.device is \"nvme\": nothing is offloaded to disks (use \"cpu\" or "
       "\"none\")"},
      {R"({"zero_optimization": {"stage": 3, "offload_param": {"device": "cpp"}}})",
       "zero_optimization.offload_param.device is \"cpp\" (did you mean 'cpu'?)"},
      {R"({"zero_optimization": {"stage": 4}})", "ds.json: zero_optimization.stage is 4 (one of: 0, 1, 2, 3)"},
      {R"({"optimizer": {"type": "Lamb"}})",
       "optimizer.type is \"Lamb\", which Capstan does not offer (use \"AdamW\" or \"Lion\")"},
      {R"({"optimizer": {"type": "Adam", "params": {"adam_w_mode": false}}})",
       "optimizer.params.adam_w_mode is false, which Capstan does not offer: always so (use true, or remove it)"},
      {R"({"scheduler": {"type": "OneCycle"}})",
       "scheduler.type is \"OneCycle\", which Capstan does not offer (one of: WarmupLR, WarmupDecayLR, "
       "WarmupCosineLR)"},
      {R"({"fp16": {"enabled": true}, "bf16": {"enabled": true}})",
       "fp16.enabled and bf16.enabled are both true (choose one)"},
      {R"({"fp16": {"enabled": true, "initial_scale_power": 99}})",
       "fp16.initial_scale_power is 99 (use 16, which gives 65536)"},
      {R"({"optimizer": {"type": "AdamW", "params": {"lr": 1e-4}}, "scheduler": {"params": {"warmup_max_lr": 2e-4}}})",
       "scheduler.params.warmup_max_lr is 2e-04, optimizer.params.lr is 1e-04 (both mean optimizer.lr: remove one)"}};
  for (const auto& [json, message] : refused) {
    INFO(json);
    const auto faults = faults_of(json);
    REQUIRE(faults.size() == 1);
    CHECK_THAT(faults.front(), Contains(message));
  }
}

TEST_CASE("keys and types are judged, all faults at once") {
  const std::string bad =
      R"({"train_batch_size": "8", "gradient_clipping": true, "gradiant_clipping": 1.0, "curriculum": 1,
    "optimizer": {"type": "AdamW", "params": {"betas": [0.9, "b"], "weight_deca": 0.1}}, "fp16": true,
    "train_micro_batch_size_per_gpu": 0, "steps_per_print": 18446744073709551615, "gradient_accumulation_steps": 1.5,
    "zero_optimization": {"stage": "auto", "overlap_com": true, "reduce_bucket_size": -1}})";
  const auto faults = faults_of(bad);
  CHECK(faults.size() == 13);
  for (const char* message :
       {"ds.json: train_batch_size is \"8\", expected an integer (change it)",
        "gradient_clipping is true, expected a number",
        "ds.json: gradiant_clipping is not a key that import-deepspeed knows (did you mean 'gradient_clipping'?)",
        "curriculum is not a key that import-deepspeed knows (remove it if it does not change the training)",
        "optimizer.params.betas is [0.9,\"b\"], expected a list of numbers",
        "optimizer.params.weight_deca is not a key that import-deepspeed knows (did you mean 'weight_decay'?)",
        "fp16 is true, expected a table (write { … }, or remove it)",
        "train_micro_batch_size_per_gpu is 0, expected at least 1 (change it)",
        "gradient_accumulation_steps is 1.5, expected an integer",
        "steps_per_print is 18446744073709551615, expected an integer",
        "zero_optimization.stage is \"auto\", expected an integer",
        "zero_optimization.overlap_com is not a key that import-deepspeed knows (did you mean 'overlap_comm'?)",
        "zero_optimization.reduce_bucket_size is -1, expected at least 0"}) {
    CHECK_THAT(join(faults, "\n"), Contains(message));
  }
}

TEST_CASE("text that is not JSON is refused with its line") {
  CHECK_THAT(join(faults_of("{\n  \"train_batch_size\": 8\n  \"fp16\": {}\n}")),
             Contains("ds.json: it is not JSON: line 3, column 8: no JSON at '\": {}"));
  CHECK_THAT(join(faults_of("{\"train_batch_size\": 1e999}")),
             Contains("ds.json: it is not JSON: line 1, column 22: 1e999 is beyond any number"));
  CHECK(join(faults_of("[1]")) == "ds.json: it holds no JSON object (give a DeepSpeed configuration)");
  CHECK(join(faults_of(R"({"fp16": {"enabled": true, "enabled": false}})")) ==
        "ds.json: the key \"enabled\" stands twice in one table (remove one of the two)");
}

}  // namespace translate_test
