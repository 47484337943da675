// peft and Capstan compute the same from each other's adapter files, and merge them into the same model.
#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <capstan/base/files.h>
#include <capstan/base/json.h>
#include <capstan/checkpoint/folder_source.h>
#include <capstan/checkpoint/safetensors.h>
#include <capstan_catch.h>

#include <cstdlib>
#include <fstream>
#include <map>

#include "checkpoint/scratch.h"
#include "hf/door.h"
#include "job/assemble.h"
#include "nn/init_source.h"
#include "parity/python.h"
#include "parity/reference.h"
#include "step/session.h"
#include "support/job.h"
#include "train/exports.h"

namespace peft_test {

using namespace capstan;
using parity::logits_of;

namespace {

namespace fs = std::filesystem;

struct Case {
  const char* plugin;
  const char* from_peft;  // [strategy.lora] as the case's adapter/ needs it
  const char* ours;       // … for one that Capstan draws and writes
  bool in_transformers_4 = true;
};

const Case all_cases[] = {
    {"gpt", "rank = 4\nalpha = 9\ntargets = [\"c_attn\", \"mlp.c_proj\"]\n",
     "rank = 4\ntargets = [\"linear_qkv\", \"linear_proj\"]\nbias = \"lora_only\"\n"
     "modules_to_save = [\"c_fc\", \"ln_f\", \"wte\"]\n"},
    {"bloom", "rank = 3\ntargets = [\"query_key_value\", \"dense\"]\nbias = \"all\"\n",
     "rank = 5\ntargets = [\"all-linear\"]\nbias = \"all\"\nmodules_to_save = [\"input_layernorm\", "
     "\"word_embeddings\"]\n"},
    {"llama",
     "rank = 5\nalpha = 7\nrank_stabilised = true\ntargets = [\"q_proj\", \"v_proj\", \"up_proj\"]\n"
     "modules_to_save = [\"lm_head\", \"model.norm\"]\n",
     "rank = 4\nalpha = 6\ntargets = [\"linear_qkv\", \"linear_fc1\", \"down_proj\"]\n"
     "modules_to_save = [\"lm_head\", \"norm\"]\n"},
    // The head is the embedding: peft has one matrix for both where it is told so.
    {"tied",
     "rank = 4\nalpha = 8\ntargets = [\"layers.1.self_attn.q_proj\", \"layers.1.self_attn.v_proj\"]\n"
     "modules_to_save = [\"embed_tokens\"]\n",
     "rank = 4\ntargets = [\"linear_proj\"]\nmodules_to_save = [\"embed_tokens\"]\n"},
    {"mixtral", "rank = 4\nalpha = 8\ntargets = [\"q_proj\", \"k_proj\", \"v_proj\"]\n",
     "rank = 4\nalpha = 3\ntargets = [\"linear_qkv\", \"experts\", \"gate\"]\nmodules_to_save = [\"o_proj\"]\n"},
    {"qwen3", "rank = 4\nalpha = 8\ntargets = [\"q_proj\", \"o_proj\", \"gate_proj\"]\n",
     // Not at mixtral's experts: peft 0.21 with transformers 5 scales those otherwise, its own too (docs/lora.md).
     "rank = 4\nalpha = 3\nrank_stabilised = true\ntargets = [\"linear_qkv\", \"linear_fc2\"]\n"
     "modules_to_save = [\"q_norm\"]\n"},
    // Its tower has modules of the same names, which get no adapters.
    {"mistral3",
     "rank = 4\nalpha = 8\ntargets = [\"q_proj\", \"v_proj\", \"down_proj\"]\nmodules_to_save = [\"lm_head\"]\n",
     "rank = 4\ntargets = [\"linear_qkv\", \"o_proj\"]\nmodules_to_save = [\"norm\"]\n"},
    {"qwen3_vl", "rank = 4\nalpha = 8\ntargets = [\"q_proj\", \"v_proj\", \"down_proj\"]\n",
     "rank = 4\ntargets = [\"linear_qkv\", \"o_proj\"]\nmodules_to_save = [\"q_norm\"]\n", false},
    // A router has a correction, which is not trained.
    {"glm4_moe", "rank = 3\nalpha = 8\ntargets = [\"q_proj\", \"o_proj\"]\nmodules_to_save = [\"mlp.gate\"]\n",
     "rank = 4\nalpha = 3\ntargets = [\"linear_qkv\", \"linear_proj\"]\nmodules_to_save = "
     "[\"post_attention_layernorm\", \"mlp.gate\"]\n"},
    {"deepseek_v3",
     "rank = 3\nalpha = 8\ntargets = [\"q_a_proj\", \"q_b_proj\", \"kv_a_proj_with_mqa\", \"kv_b_proj\"]\n",
     "rank = 4\nalpha = 3\ntargets = [\"linear_q_down\", \"linear_q_up\", \"linear_kv_down\", \"linear_kv_up\", "
     "\"linear_proj\"]\nmodules_to_save = [\"q_a_layernorm\"]\n"},
    {"olmo2", "rank = 3\nalpha = 8\ntargets = [\"k_proj\", \"down_proj\"]\n",
     "rank = 4\ntargets = [\"all-linear\"]\nmodules_to_save = [\"post_feedforward_layernorm\"]\n"},
    {"gpt_neox", "rank = 3\nalpha = 6\ntargets = [\"query_key_value\", \"dense_h_to_4h\"]\nbias = \"all\"\n",
     "rank = 4\ntargets = [\"all-linear\"]\nbias = \"all\"\nmodules_to_save = [\"final_layer_norm\", \"embed_in\"]\n"},
    {"phi3",
     "rank = 4\nalpha = 8\ntargets = [\"qkv_proj\", \"gate_up_proj\", \"o_proj\"]\nmodules_to_save = "
     "[\"model.norm\"]\n",
     "rank = 4\nalpha = 6\ntargets = [\"all-linear\"]\nmodules_to_save = [\"lm_head\"]\n"},
    {"ministral",
     "rank = 3\nalpha = 8\ntargets = [\"q_proj\", \"v_proj\", \"gate_proj\"]\nmodules_to_save = [\"model.norm\"]\n",
     "rank = 4\ntargets = [\"all-linear\"]\nmodules_to_save = [\"lm_head\"]\n"},
    {"ministral3", "rank = 4\nalpha = 8\ntargets = [\"q_proj\", \"k_proj\", \"down_proj\"]\n",
     "rank = 4\ntargets = [\"all-linear\"]\n", false},
    // q, k and v are one module of the file.
    {"qwen3_5", "rank = 4\nalpha = 8\ntargets = [\"in_proj_qkv\", \"in_proj_a\", \"out_proj\", \"q_proj\"]\n",
     "rank = 4\ntargets = [\"all-linear\"]\nmodules_to_save = [\"linear_attn.norm\"]\n", false},
    {"smollm3", "rank = 3\nalpha = 8\ntargets = [\"v_proj\", \"gate_proj\"]\n",
     "rank = 4\ntargets = [\"all-linear\"]\n"},
    {"granite", "rank = 3\nalpha = 8\ntargets = [\"q_proj\", \"down_proj\"]\nmodules_to_save = [\"lm_head\"]\n",
     "rank = 4\ntargets = [\"linear_qkv\", \"linear_fc1\"]\n"},
    {"olmo3", "rank = 3\nalpha = 8\ntargets = [\"q_proj\", \"o_proj\"]\n",
     "rank = 4\ntargets = [\"all-linear\"]\nmodules_to_save = [\"k_norm\"]\n"},
    // Gate and up are one module of the file.
    {"glm4", "rank = 3\nalpha = 8\ntargets = [\"k_proj\", \"gate_up_proj\"]\nbias = \"all\"\n",
     "rank = 4\ntargets = [\"linear_fc1\", \"linear_proj\"]\nbias = \"all\"\nmodules_to_save = "
     "[\"post_mlp_layernorm\"]\n"},
    {"gemma", "rank = 3\nalpha = 8\ntargets = [\"q_proj\", \"up_proj\"]\n",
     "rank = 4\ntargets = [\"all-linear\"]\nmodules_to_save = [\"input_layernorm\"]\n"},
    {"starcoder2", "rank = 3\nalpha = 8\ntargets = [\"v_proj\", \"c_fc\", \"c_proj\"]\nbias = \"all\"\n",
     "rank = 4\ntargets = [\"all-linear\"]\nbias = \"all\"\nmodules_to_save = [\"input_layernorm\"]\n"},
    {"olmoe", "rank = 3\nalpha = 8\ntargets = [\"k_proj\", \"o_proj\"]\n",
     "rank = 4\nalpha = 3\ntargets = [\"linear_qkv\", \"experts\", \"gate\"]\nmodules_to_save = [\"q_norm\"]\n"},
    {"seed_oss", "rank = 3\nalpha = 8\ntargets = [\"v_proj\", \"down_proj\"]\n",
     "rank = 4\ntargets = [\"all-linear\"]\n"},
    {"exaone4", "rank = 3\nalpha = 8\ntargets = [\"k_proj\", \"gate_proj\"]\n",
     "rank = 4\ntargets = [\"all-linear\"]\nmodules_to_save = [\"k_norm\"]\n"},
    {"cohere", "rank = 3\nalpha = 8\ntargets = [\"q_proj\", \"down_proj\"]\nmodules_to_save = [\"model.norm\"]\n",
     "rank = 4\ntargets = [\"all-linear\"]\nmodules_to_save = [\"input_layernorm\"]\n"},
    // Gate and up of the shared layer are one module of the file. transformers 5 renames experts and routers.
    {"granite_moe",
     "rank = 3\nalpha = 8\ntargets = [\"q_proj\", \"input_linear\", \"shared_mlp.output_linear\", \"experts\"]\n",
     "rank = 4\ntargets = [\"linear_qkv\", \"linear_proj\", \"router\", \"experts\"]\n", false},
    {"hunyuan_v1_dense", "rank = 3\nalpha = 8\ntargets = [\"q_proj\", \"up_proj\"]\n",
     "rank = 4\ntargets = [\"all-linear\"]\nmodules_to_save = [\"key_layernorm\"]\n"},
    {"dots1", "rank = 3\nalpha = 8\ntargets = [\"k_proj\", \"o_proj\"]\n",
     "rank = 4\ntargets = [\"linear_qkv\", \"linear_proj\"]\nmodules_to_save = [\"k_norm\"]\n"},
    {"ernie4_5", "rank = 3\nalpha = 8\ntargets = [\"q_proj\", \"down_proj\"]\n",
     "rank = 4\ntargets = [\"all-linear\"]\n"},
    {"ernie4_5_moe", "rank = 3\nalpha = 8\ntargets = [\"q_proj\", \"v_proj\"]\n",
     "rank = 4\ntargets = [\"linear_qkv\", \"linear_proj\"]\n"},
    {"nemotron", "rank = 3\nalpha = 8\ntargets = [\"v_proj\", \"up_proj\", \"down_proj\"]\n",
     "rank = 4\ntargets = [\"all-linear\"]\nmodules_to_save = [\"input_layernorm\"]\n"},
    {"stablelm", "rank = 3\nalpha = 8\ntargets = [\"q_proj\", \"gate_proj\"]\n",
     "rank = 4\ntargets = [\"all-linear\"]\nmodules_to_save = [\"model.norm\"]\n"},
    {"phi", "rank = 3\nalpha = 8\ntargets = [\"q_proj\", \"fc1\"]\nmodules_to_save = [\"lm_head\"]\n",
     "rank = 4\ntargets = [\"all-linear\"]\nmodules_to_save = [\"input_layernorm\"]\n"},
    {"gptj", "rank = 3\nalpha = 8\ntargets = [\"v_proj\", \"out_proj\", \"fc_out\"]\nbias = \"all\"\n",
     "rank = 4\ntargets = [\"all-linear\"]\n"},
    {"qwen2_moe", "rank = 3\nalpha = 8\ntargets = [\"q_proj\", \"o_proj\"]\n",
     "rank = 4\ntargets = [\"linear_qkv\", \"linear_proj\"]\nmodules_to_save = [\"input_layernorm\"]\n"},
    {"minimax_m2", "rank = 3\nalpha = 8\ntargets = [\"q_proj\", \"o_proj\"]\n",
     "rank = 4\nalpha = 3\ntargets = [\"linear_qkv\", \"experts\"]\nmodules_to_save = [\"k_norm\"]\n", false},
    // Queries, keys, values and gate are one module of the file, by key heads.
    {"qwen3_next", "rank = 4\nalpha = 8\ntargets = [\"in_proj_qkvz\", \"in_proj_ba\", \"out_proj\", \"q_proj\"]\n",
     "rank = 4\ntargets = [\"linear_qkv\", \"linear_proj\", \"in_proj_qkvz\"]\n", false},
    {"glm4_moe_lite", "rank = 3\nalpha = 8\ntargets = [\"q_b_proj\", \"kv_b_proj\"]\n",
     "rank = 4\ntargets = [\"linear_q_down\", \"linear_kv_up\", \"linear_proj\"]\n", false},
    {"apertus", "rank = 3\nalpha = 8\ntargets = [\"k_proj\", \"down_proj\"]\n",
     "rank = 4\ntargets = [\"all-linear\"]\nmodules_to_save = [\"q_norm\"]\n", false},
    {"gemma2", "rank = 3\nalpha = 8\ntargets = [\"q_proj\", \"v_proj\", \"gate_proj\"]\n",
     "rank = 4\ntargets = [\"all-linear\"]\nmodules_to_save = [\"pre_feedforward_layernorm\"]\n"},
    {"gemma3", "rank = 3\nalpha = 8\ntargets = [\"k_proj\", \"o_proj\", \"up_proj\"]\n",
     "rank = 4\ntargets = [\"all-linear\"]\nmodules_to_save = [\"q_norm\"]\n"},
    {"gemma4", "rank = 3\nalpha = 8\ntargets = [\"q_proj\", \"k_proj\", \"down_proj\", \"per_layer_projection\"]\n",
     "rank = 4\ntargets = [\"all-linear\"]\nmodules_to_save = [\"k_norm\"]\n", false},
    {"gemma4_experts", "rank = 4\nalpha = 8\ntargets = [\"o_proj\", \"proj\", \"up_proj\", \"experts\"]\n",
     // A router is a module with another one in it: peft saves the outer one.
     "rank = 3\nalpha = 5\ntargets = [\"linear_qkv\", \"experts\"]\nmodules_to_save = [\"router\"]\n", false},
    // Experts and routers are peft's target_parameters.
    {"gpt_oss", "rank = 4\nalpha = 8\ntargets = [\"q_proj\", \"o_proj\", \"router\", \"experts\"]\n",
     "rank = 3\nalpha = 5\ntargets = [\"linear_qkv\", \"router\", \"experts\"]\nbias = \"all\"\n"},
};

// Those that the environment names in CAPSTAN_PARITY_CASES, or all.
const std::vector<Case> cases = [] {
  const char* given = std::getenv("CAPSTAN_PARITY_CASES");
  const bool is_4 = parity_python().string().find(".deps/venv/") != std::string::npos;
  std::vector<Case> some;
  for (const auto& one : all_cases) {
    if (given && cat(",", given, ",").find(cat(",", one.plugin, ",")) == std::string::npos) continue;
    if (one.in_transformers_4 || !is_4) some.push_back(one);
  }
  return some;
}();

const fs::path& folders() {
  static const MadeFolder made("adapters.py", {"make"});
  return made.path();
}

parity::Tensors reference(const std::string& plugin, const std::string& name) {
  return parity::load(folders() / plugin / (name + "-reference.safetensors"));
}

// Some cases are further models of a plugin.
std::string plugin_of(const std::string& name) {
  if (name == "tied" || name == "mistral3") return "llama";
  if (name == "qwen3_next") return "qwen3_5";
  if (name == "qwen3_vl") return "qwen3";
  return name == "gemma4_experts" ? "gemma4" : name;
}

job::Job prepare(const std::string& plugin, const std::string& lora, setup::Purpose purpose = setup::Purpose::train) {
  const auto config = folders() / "job.toml";
  std::ofstream(config)
      << "[run]\ndevice = \"cpu\"\nseed = 9\n[model]\nplugin = \"" << plugin_of(plugin) << "\"\npath = \"" << plugin
      << "\"\n[data]\nplugin = \"synthetic\"\ntokenizer = \"byte\"\n"
      << "eval_samples = 1\n[train]\nmax_steps = 1\nglobal_batch = 1\nprecision = \"fp32\"\n[strategy.lora]\n"
      << lora;
  setup::JobRequest request;
  request.file = config.string();
  request.purpose = purpose;
  return testing::job_of(request);
}

// 1e-5 of the largest logit, as for whole models in float32.
void check_close(const at::Tensor& a, const at::Tensor& b) {
  REQUIRE(a.sizes() == b.sizes());
  CHECK((a - b).abs().max().item<double>() <= 1e-5 * b.abs().max().item<double>());
}

// A model as if it had been trained: adapters are drawn, what is trained besides them has moved.
class Trained : public layout::Source {
 public:
  Trained(const fs::path& folder, const layout::FileMap& files)
      : drawn_(9), base_(checkpoint::open_folder(folder, files)) {}
  bool has(const layout::Param& param) const override { return base_->has(param) || drawn_.has(param); }
  void fill(const layout::Param& param, const layout::Box& box, const at::Tensor& out) override {
    if (!base_->has(param)) return drawn_.fill(param, box, out);
    base_->fill(param, box, out);
    if (param.trainable) out.mul_(1.25).add_(0.1);
  }

 private:
  nn::InitSource drawn_;
  std::unique_ptr<layout::Source> base_;
};

// What a checkpoint of such a run has: nothing frozen.
class Saved : public layout::Source {
 public:
  explicit Saved(Trained& trained) : trained_(trained) {}
  bool has(const layout::Param& param) const override { return param.trainable && trained_.has(param); }
  void fill(const layout::Param& param, const layout::Box& box, const at::Tensor& out) override {
    if (!param.trainable) throw Error(cat("no checkpoint has ", param.name));
    trained_.fill(param, box, out);
  }

 private:
  Trained& trained_;
};

std::string error_of(const std::string& plugin, const std::string& lora) {
  try {
    const auto job = prepare(plugin, lora);
    comm::run_in_process(1, [&](comm::Communicator& communicator) { step::materialise(job, communicator); });
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

}  // namespace

TEST_CASE("an adapter that peft saved gives peft's logits", "[transformers4]") {
  at::set_num_threads(1);
  for (const auto& one : cases) {
    INFO(one.plugin);
    const auto expected = reference(one.plugin, "adapter");
    for (const auto purpose : {setup::Purpose::train, setup::Purpose::evaluate}) {
      const auto job = prepare(one.plugin, cat(one.from_peft, "adapter = \"", one.plugin, "/adapter\"\n"), purpose);
      comm::run_in_process(1, [&](comm::Communicator& communicator) {
        auto session = step::materialise(job, communicator);
        check_close(logits_of(session, expected.at("ids")), expected.at("logits"));
      });
    }
  }
}

TEST_CASE("peft loads adapters that Capstan writes, to the same logits, and merges them to what Capstan exports",
          "[transformers4]") {
  at::set_num_threads(1);
  std::map<std::string, at::Tensor> ours;
  for (const auto& one : cases) {
    const auto job = prepare(one.plugin, std::string(one.ours) + "init = \"random\"\n");
    comm::run_in_process(1, [&](comm::Communicator& communicator) {
      auto session = step::materialise(job, communicator);
      Trained trained(folders() / one.plugin, job.plugins.model->object->file_map());
      Saved saved(trained);
      session.engine->fill(trained);
      ours[one.plugin] = logits_of(session, reference(one.plugin, "adapter").at("ids"));
      const auto peft = job::exports_of(job.plugins.strategies).front();
      CHECK(train::refusal_of(peft, job.plugins) == "");
      train::write_export(peft, job.plugins, saved, folders() / one.plugin / "ours");
      const hf::ModelToWrite model{job.plugins, job.samples.tokenizer, *job.config.train,
                                   job::pointers(job.model->units)};
      hf::door().write(model, saved, folders() / one.plugin / "merged", {.merge = true}, communicator);
    });
    // And starting from that folder is where this run was.
    const auto again = prepare(one.plugin, cat(one.ours, "adapter = \"", one.plugin, "/ours\"\n"));
    comm::run_in_process(1, [&](comm::Communicator& communicator) {
      auto session = step::materialise(again, communicator);
      check_close(logits_of(session, reference(one.plugin, "adapter").at("ids")), ours.at(one.plugin));
    });
  }
  run_python("adapters.py", {"load", folders().string(), "ours"});
  for (const auto& one : cases) {
    INFO(one.plugin);
    check_close(ours.at(one.plugin), reference(one.plugin, "ours").at("logits"));
  }
}

TEST_CASE("what peft's files cannot hold is said, with what can be done") {
  const auto reason = [](const std::string& plugin, const std::string& lora) {
    const auto job = prepare(plugin, lora);
    return train::refusal_of(job::exports_of(job.plugins.strategies).front(), job.plugins);
  };
  CHECK(reason("llama", "targets = [\"o_proj\"]\nmodules_to_save = [\"layers.1.self_attn.o_proj\"]\n") ==
        "model.layers.1.self_attn.o_proj was trained whole and has an adapter, but peft knows only one of these: "
        "export it merged, --to hf --merge");
}

TEST_CASE("every field that peft writes into adapter_config.json is in the table of its keys") {
  const MadeFolder made("adapters.py", {"fields"});
  const auto fields = Json::parse(read_file(made.path() / "fields.json"));
  plugin::Host host;
  std::vector<config::FileKeys> tables;
  for (const auto& found : host.discover()) {
    if (found.registration && found.registration->name == "lora") tables = found.registration->file_keys;
  }
  REQUIRE(tables.size() == 1);
  CHECK(fields.at("r") == 8);
  CHECK(fields.at("lora_alpha") == 8);
  CHECK(fields.size() > 30);
  for (const auto& [name, value] : fields.items()) {
    INFO(name);
    CHECK(tables.front().find(name));
  }
  // peft's defaults themselves are no fault.
  Diagnostics faults;
  auto defaults = fields;
  defaults["peft_type"] = "LORA";
  config::judge_keys(tables.front(), defaults.dump(), "defaults", faults);
  CHECK(faults.empty());
}

TEST_CASE("an adapter that does not fit is refused, with every fault") {
  CHECK_THAT(
      error_of("llama",
               "rank = 5\nalpha = 7\nrank_stabilised = true\ntargets = [\"q_proj\", \"v_proj\", "
               "\"up_proj\"]\nmodules_to_save = [\"o_proj\"]\nadapter = \"llama/adapter\"\n"),
      Contains("it has no tensor base_model.model.model.layers.0.self_attn.o_proj.weight, which this run trains") &&
          Contains("uses: base_model.model.lm_head.weight, base_model.model.model.norm.weight") &&
          Contains("choose strategy.lora.modules_to_save and bias as in its adapter_config.json"));
  const auto text = error_of("llama", "rank = 4\ntargets = [\"q_proj\"]\nadapter = \"llama/adapter\"\n");
  CHECK_THAT(text, Contains("its rank r is 5, strategy.lora.rank is 4"));
  CHECK_THAT(text, Contains("its lora_alpha is 7, strategy.lora.alpha is 4"));
  CHECK_THAT(text, Contains("use_rslora"));
  CHECK_THAT(text, Contains("q_proj.lora_A.weight is [5, 48], this run needs [4, 48]"));
  CHECK_THAT(text, Contains("it has tensors that no adapter of this run uses: "));
  const auto shared =
      error_of("mixtral", "rank = 4\nalpha = 8\ntargets = [\"linear_qkv\"]\nadapter = \"mixtral/adapter\"\n");
  CHECK_THAT(shared, Contains("differs from the A of the modules that share model.layers.0.self_attn.linear_qkv"));
  CHECK_THAT(
      error_of(
          "bloom",
          "rank = 3\ntargets = [\"query_key_value\", \"dense\", \"dense_h_to_4h\"]\nadapter = \"bloom/adapter\"\n"),
      Contains("it has no tensor base_model.model.transformer.h.0.mlp.dense_h_to_4h.lora_A.weight"));
}

}  // namespace peft_test
