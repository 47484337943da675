// The fate of every configuration in configs/: what `check` says of it with the questions at hand, with and without the
// model that it starts from.
#include <capstan/base/json.h>
#include <capstan/base/text.h>
#include <capstan_catch.h>
#include <capstan_places.h>

#include <map>

#include <capstan/config/model_path.h>
#include "job/settle.h"
#include "support/folder.h"

namespace configs_test {

using namespace capstan;
namespace fs = std::filesystem;

namespace {

const fs::path configs = fs::path(CAPSTAN_SOURCE_DIR) / "configs";

struct Checked {
  std::optional<job::Job> prepared;  ///< where there are no faults
  config::Options<setup::ModelOptions> model_options;
  std::vector<std::string> faults;
};

Checked check(const std::string& name, int ranks, std::vector<std::string> overrides, const config::HubCache& hub) {
  static plugin::Host host;
  const auto questions = [](const char* part) { return cat(configs.string(), "/data/mini_squad_", part, ".json"); };
  overrides.emplace_back("run.host_memory=2000");
  if (name != "quickstart.toml")  // it has questions of its own
    overrides.insert(overrides.end(), {"data.train=" + questions("train"), "data.eval=" + questions("eval")});
  if (name.starts_with("bloom")) overrides.emplace_back("data.train_samples=300");
  if (name.find("llama") == 0 || name.find("mixtral") == 0 || name.find("bloom") == 0)
    overrides.emplace_back("data.eval_samples=20");
  setup::JobRequest request;
  request.file = (configs / name).string();
  request.overrides = std::move(overrides);
  request.world_size = ranks;
  request.device = "cuda";
  request.hub = hub;
  Diagnostics diagnostics;
  Checked out;
  out.prepared = job::make_job(request, host, diagnostics);
  Diagnostics again;
  out.model_options =
      job::load_plugins(setup::read_configuration(request, again), job::Needs::all, host, again).model_options;
  for (const auto& diagnostic : diagnostics.list()) out.faults.push_back(diagnostic.text());
  return out;
}

// A snapshot of a hub id: config.json, and weights of the right names and shapes whose bytes were never written (the
// file is sparse).
void make_snapshot(const test::Folder& hub, const std::string& name, const Json& config, const job::Job& job) {
  const auto repository = "models--" + name;
  hub.write(repository + "/refs/main", "abc123\n");
  hub.write(repository + "/snapshots/abc123/config.json", config.dump());
  const auto map = job.plugins.model->object->file_map();
  Json header;
  std::uint64_t offset = 0;
  for (const auto* record : job::records_of(job::pointers(job.model->units))) {
    const auto& tensor = map.tensors.at(record->name);
    const auto shape = tensor.expected_shape(record->shape);
    for (const auto& one : tensor.stack.empty() ? std::vector<std::string>{tensor.name} : tensor.stack) {
      const auto end = offset + static_cast<std::uint64_t>(layout::numel(shape)) * 2;
      header[one] = {{"dtype", "F16"}, {"shape", shape}, {"data_offsets", {offset, end}}};
      offset = end;
    }
  }
  const auto text = header.dump();
  std::string length(8, '\0');
  for (std::size_t i = 0; i < 8; ++i) length[i] = static_cast<char>(text.size() >> (8 * i) & 0xFF);
  const auto file = hub.write(repository + "/snapshots/abc123/model.safetensors", length + text);
  fs::resize_file(file, 8 + text.size() + offset);
}

// BLOOM-560M, in the published file's own spellings.
void make_bloom(const test::Folder& hub, const job::Job& random) {
  make_snapshot(hub, "bigscience--bloom-560m",
                {{"model_type", "bloom"},
                 {"vocab_size", 250880},
                 {"n_embed", 1024},
                 {"n_layer", 24},
                 {"num_attention_heads", 16},
                 {"torch_dtype", "float16"}},
                random);
}

struct Fate {
  int ranks;
  std::string hub_id;  ///< that is missing; empty: nothing is
  std::int64_t parameters;
  std::vector<std::string> overrides = {};
};

const std::map<std::string, Fate> fates{
    {"quickstart.toml", {2, "", 0}},
    {"gpt2_small_squad.toml", {8, "", 124'439'808}},
    {"bloom560m_baseline.toml", {1, "bigscience/bloom-560m", 0}},
    {"bloom560m_baseline_bf16.toml", {1, "bigscience/bloom-560m", 0}},
    {"bloom560m_random.toml", {1, "", 559'214'592, {"data.tokenizer=byte"}}},
    {"llama31_8b.toml", {8, "meta-llama/Llama-3.1-8B", 0}},
    {"llama31_8b_long_context.toml", {8, "meta-llama/Llama-3.1-8B", 0}},
    {"llama31_8b_lora_fp8.toml", {8, "meta-llama/Llama-3.1-8B", 0}},
    {"llama31_8b_pp2.toml", {4, "meta-llama/Llama-3.1-8B", 0}},
    {"llama31_8b_random.toml", {8, "", 8'030'261'248}},
    {"llama32_1b_distill.toml", {8, "meta-llama/Llama-3.2-1B", 0}},
    {"mixtral_8x7b.toml", {8, "mistralai/Mixtral-8x7B-v0.1", 0}},
    {"mixtral_8x7b_lora_nf4.toml", {1, "mistralai/Mixtral-8x7B-v0.1", 0}},
    {"mixtral_8x7b_random.toml", {8, "", 46'702'792'704}},
    {"mixtral_8x7b_tp2_pp2_ep2.toml", {8, "mistralai/Mixtral-8x7B-v0.1", 0}},
};

}  // namespace

TEST_CASE("each configuration passes check, or says which model to download and how") {
  const test::Folder empty;
  std::set<std::string> files;
  for (const auto& entry : fs::directory_iterator(configs)) {
    if (entry.path().extension() == ".toml") files.insert(entry.path().filename().string());
  }
  // Others train them: tests/system/end_to_end/hub_data_test.cc, whose datasets are in no checkout, and
  // tests/plugins/data/mixture/program_test.cc.
  for (const auto* file : {"hub_squad.toml", "hub_chat.toml", "mixture.toml"}) files.erase(file);
  for (const auto& [file, fate] : fates) {
    INFO(file);
    files.erase(file);
    const auto checked = check(file, fate.ranks, fate.overrides, {empty.path(), "HF_HOME=/scratch"});
    if (!fate.hub_id.empty()) {
      REQUIRE(checked.faults.size() == 1);
      CHECK_THAT(checked.faults[0],
                 Contains(cat("and no model ", fate.hub_id, " in the hub's cache ", empty.path().string())) &&
                     Contains(cat("HF_HOME=/scratch hf download ", fate.hub_id, R"( --include "*.[js]*")")));
      continue;
    }
    CHECK(join(checked.faults, "\n") == "");
    if (fate.parameters > 0) CHECK_THAT(checked.prepared->model_summary(), Contains(thousands(fate.parameters)));
  }
  CHECK(join({files.begin(), files.end()}) == "");  // those whose fate is not told here
}

TEST_CASE("the baseline is the workshop's, and runs from the hub's cache once the model is there") {
  const test::Folder hub;
  const auto random = check("bloom560m_random.toml", 1, {"data.tokenizer=byte"}, {});
  REQUIRE(random.faults.empty());
  make_bloom(hub, *random.prepared);
  for (const auto& [file, precision] :
       {std::pair{"bloom560m_baseline.toml", "fp16"}, {"bloom560m_baseline_bf16.toml", "bf16"}}) {
    INFO(file);
    const auto checked = check(file, 1, {"data.tokenizer=byte"}, {hub.path(), ""});
    CHECK(join(checked.faults, "\n") == "");
    const auto& job = *checked.prepared;
    CHECK(job.plugins.model_options->path == (hub / "models--bigscience--bloom-560m/snapshots/abc123").string());
    CHECK_THAT(job.model_summary(), Contains("559,214,592"));
    CHECK(job.config.train->precision == precision);
    CHECK(job.config.train->epochs == 3);
    CHECK(job.topology.batch.micro_batch == 4);
    CHECK(job.topology.batch.accumulation == 4);
    CHECK(job.config.optimizer->lr == 5e-5);
    CHECK(job.config.optimizer->weight_decay == 0.01);
    CHECK(job.plugins.optimizer->name == "adamw");
    for (const auto& option : job.plugins.optimizer->options) {
      if (option.spec.key == "betas") CHECK(option.value == config::Value(std::vector<double>{0.9, 0.999}));
      if (option.spec.key == "eps") CHECK(option.value == config::Value(1e-8));
    }
    CHECK(job.config.optimizer->clip == 1);
    CHECK(job.config.optimizer->schedule == "linear");
    CHECK(job.samples.length == 512);
  }
}

namespace {

struct Split {
  std::string file;
  std::vector<int> ranks;  ///< that the exercise has
  std::string held;        ///< by one of them, as check says; empty: everything
  std::string trained;     ///< adapters; empty: all parameters
};

const std::vector<Split> nemo_experiments{
    {"data_parallel/llama31_8b_lora", {1, 2, 4, 8}, "", "18,874,368"},
    {"data_parallel/mixtral_8x7b_lora", {2, 4, 8}, "18,874,368 trainable + 24,154,214,400 non-trainable", "18,874,368"},
    {"model_parallel/llama31_8b_tp2", {2}, "4,015,263,744 trainable", ""},
    {"model_parallel/llama31_8b_tp4", {4}, "2,007,764,992 trainable", ""},
    {"model_parallel/llama31_8b_tp8", {8}, "1,004,015,616 trainable", ""},
    {"model_parallel/mixtral_8x7b_tp1_ep4", {4}, "12,879,925,248 trainable", ""},
    {"model_parallel/mixtral_8x7b_tp2_ep2", {4}, "12,077,764,608 trainable", ""},
    {"model_parallel/mixtral_8x7b_tp4_ep1", {4}, "11,676,684,288 trainable", ""},
    {"model_parallel/mixtral_8x7b_tp4_ep2", {8}, "6,039,539,712 trainable", ""},
};

}  // namespace

// Only shapes: nothing of a model's size is allocated. The published configurations' sizes are the presets'.
TEST_CASE("the workshop's NeMo experiments pass check, and each rank holds what the exercise says") {
  const test::Folder hub;
  const auto make = [&](const std::string& random, const std::string& id, const Json& config) {
    make_snapshot(hub, id, config, check(random, 1, {}, {}).prepared.value());
  };
  make("llama31_8b_random.toml", "meta-llama--Llama-3.1-8B",
       {{"model_type", "llama"},
        {"hidden_size", 4096},
        {"num_hidden_layers", 32},
        {"num_attention_heads", 32},
        {"num_key_value_heads", 8},
        {"intermediate_size", 14336},
        {"vocab_size", 128256}});
  make("mixtral_8x7b_random.toml", "mistralai--Mixtral-8x7B-v0.1",
       {{"model_type", "mixtral"},
        {"hidden_size", 4096},
        {"num_hidden_layers", 32},
        {"num_attention_heads", 32},
        {"num_key_value_heads", 8},
        {"intermediate_size", 14336},
        {"vocab_size", 32000},
        {"num_local_experts", 8}});
  for (const auto& experiment : nemo_experiments) {
    for (const auto ranks : experiment.ranks) {
      const auto file = cat("workshop/nemo/", experiment.file, ".toml");
      INFO(file << " on " << ranks << " ranks");
      const auto checked = check(file, ranks, {"data.tokenizer=byte", "data.eval_samples=20"}, {hub.path(), ""});
      CHECK(join(checked.faults, "\n") == "");
      const auto& changes = checked.prepared->model->changes;
      if (!experiment.held.empty()) CHECK_THAT(changes, Contains("this rank computes with: " + experiment.held));
      if (!experiment.trained.empty()) CHECK_THAT(changes, Contains(cat(experiment.trained, " trainable + ")));
    }
  }
}

TEST_CASE("the workshop's FSDP and ZeRO experiments pass check on the published BLOOM, or say how to download it") {
  const test::Folder hub, empty;
  make_bloom(hub, check("bloom560m_random.toml", 1, {"data.tokenizer=byte"}, {}).prepared.value());
  const std::vector<std::string> few{"data.train_samples=300", "data.eval_samples=20"};
  auto bytes = few;  // the snapshot has no tokenizer.json
  bytes.emplace_back("data.tokenizer=byte");
  for (const char* file : {"baseline", "fsdp/full_shard", "fsdp/hybrid_shard", "fsdp/full_shard_cpu_offload",
                           "zero/zero0", "zero/zero2_cpu_offload", "zero/zero3_cpu_offload_pinned_memory"}) {
    INFO(file);
    const auto name = cat("workshop/", file, ".toml");
    const auto checked = check(name, 2, bytes, {hub.path(), ""});
    CHECK(join(checked.faults, "\n") == "");
    CHECK_THAT(checked.prepared->model_summary(), Contains("559,214,592"));
    CHECK_THAT(join(check(name, 2, few, {empty.path(), "HF_HOME=/scratch"}).faults, "\n"),
               Contains(R"(HF_HOME=/scratch hf download bigscience/bloom-560m --include "*.[js]*")"));
  }
  for (const char* file : {"custom_gpt", "fsdp/custom_gpt", "fsdp/weak_scaling_2_gpus"}) {
    const auto checked =
        check(cat("workshop/", file, ".toml"), 2, bytes, {empty.path(), ""});  // instead of a trained one
    INFO(file);
    CHECK(join(checked.faults, "\n") == "");
    CHECK_THAT(checked.prepared->model_summary(), Contains("254,527,488"));
  }
}

TEST_CASE("the workshop's trainings pass check with BLOOM-560M's size and random weights") {
  const test::Folder work, empty;
  for (const char* training : {"baseline", "fsdp"}) {
    INFO(training);
    const auto part = [&](const char* name) {
      return cat('"', (configs / "workshop/base" / name).string(), ".toml\"");
    };
    const auto file = work.write("a.toml", cat("extends = [", part(training), ", ", part("bloom_random"), "]\n"));
    const auto checked =
        check(file, 2, {"data.tokenizer=byte", "data.train_samples=300", "data.eval_samples=20"}, {empty.path(), ""});
    CHECK(join(checked.faults, "\n") == "");
    CHECK_THAT(checked.prepared->model_summary(), Contains("559,214,592"));
  }
}

TEST_CASE("check finds what is wrong with the files of a model, all of it") {
  const test::Folder hub;
  const auto random = check("bloom560m_random.toml", 1, {"data.tokenizer=byte"}, {});
  make_snapshot(hub, "bigscience--bloom-560m",
                {{"model_type", "bloom"}, {"vocab_size", 250880}, {"n_embed", 1024}, {"n_layer", 24}, {"n_head", 16}},
                *random.prepared);
  const auto folder = hub / "models--bigscience--bloom-560m/snapshots/abc123";
  const auto faults = [&](const std::vector<std::string>& overrides) {
    auto all = overrides;
    all.emplace_back("data.tokenizer=byte");
    return join(check("bloom560m_baseline.toml", 1, all, {hub.path(), ""}).faults, "\n");
  };
  CHECK_THAT(faults({"model.num_layers=23"}), Contains("12 tensors that the model does not have: h.23."));
  CHECK_THAT(faults({"model.num_layers=25"}), Contains("12 tensors missing: h.24."));
  fs::resize_file(folder / "model.safetensors", fs::file_size(folder / "model.safetensors") - 1);
  CHECK_THAT(faults({}), Contains("1 tensor is cut off: "));
}

TEST_CASE("a folder and a preset do not mix: the command line's counts, of one layer's neither") {
  const auto preset = check("llama31_8b.toml", 1, {"model.preset=llama3.1-8b", "data.tokenizer=byte"}, {});
  CHECK(join(preset.faults, "\n") == "");
  CHECK_FALSE(preset.model_options->path.has_value());
  const test::Folder folder;
  folder.write("config.json",
               R"({"model_type": "llama", "hidden_size": 64, "num_attention_heads": 4, "num_hidden_layers": 2,
                                "intermediate_size": 96, "vocab_size": 300})");
  const auto path = check("llama31_8b_random.toml", 1, {"model.path=" + folder.path().string()}, {});
  CHECK_FALSE(path.model_options->preset.has_value());
  CHECK_THAT(join(path.faults, "\n"), Contains("its weights are missing") && !Contains("preset"));
  const auto both =
      check("llama31_8b.toml", 1, {"model.preset=llama3.1-8b", "model.path=" + folder.path().string()}, {});
  CHECK_THAT(join(both.faults, "\n"),
             Contains("command line: model.preset and model.path (command line) both say what"));
}

TEST_CASE("the host's options of a plugin's table are among what may have been meant") {
  const auto fault = [](const std::string& typed) {
    return join(check("llama31_8b_random.toml", 1, {typed}, {}).faults, "\n");
  };
  CHECK_THAT(fault("model.presett=x"), Contains("unknown option model.presett\n    fix: did you mean 'preset'?"));
  CHECK_THAT(fault("data.tokeniser=byte"),
             Contains("unknown option data.tokeniser\n    fix: did you mean 'tokenizer'?"));
  CHECK_THAT(fault("model.nonsense=1"), Contains("one of: path, preset, plugin, "));
}

}  // namespace configs_test
