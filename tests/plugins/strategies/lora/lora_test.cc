// Adapters learn the same on every layout, are what their formula says, and count as they should.
#include <ATen/ATen.h>
#include <capstan/checkpoint/safetensors.h>
#include <capstan/testing.h>
#include <capstan_catch.h>

#include <algorithm>

#include "assembly/assemble.h"
#include "checkpoint/merged_source.h"
#include "checkpoint/scratch.h"
#include "nn/init_source.h"
#include "session/exports.h"
#include "support/small_run.h"

using namespace capstan;

namespace {

namespace fs = std::filesystem;

// float64 sums in another order, amplified by AdamW: what the project promises.
constexpr double tolerance = 1e-10;

const std::string sizes = "vocab_size = 261\nnum_layers = 2\nseq_length = 24\ninit_std = 0.2\n";
const std::string llama =
    "[model]\nplugin = \"llama\"\nhidden_size = 18\nnum_heads = 3\nnum_kv_heads = 1\nff_dim = 22\n" + sizes;
const std::string gpt =
    "[model]\nplugin = \"gpt\"\nhidden_size = 12\nnum_heads = 3\nff_dim = 22\ndropout = 0.1\n" + sizes;
const std::string bloom = "[model]\nplugin = \"bloom\"\nhidden_size = 12\nnum_heads = 3\n" + sizes;
const std::string mixtral =
    "[model]\nplugin = \"mixtral\"\nhidden_size = 18\nnum_heads = 3\nff_dim = 10\nnum_experts = 3\n" + sizes;

const std::string qwen3 =
    "[model]\nplugin = \"qwen3\"\nhidden_size = 18\nnum_heads = 3\nnum_kv_heads = 1\nhead_dim = 4\n" + sizes;
const std::string olmo2 = "[model]\nplugin = \"olmo2\"\nhidden_size = 18\nnum_heads = 3\nff_dim = 22\n" + sizes;

std::string lora(const std::string& options) { return "[strategy.lora]\nrank = 3\ninit = \"random\"\n" + options; }

struct Case {
  std::string name;
  std::string config;
};

const std::vector<Case> cases{
    {"gpt, roles, dropout", gpt + lora("targets = [\"linear_qkv\", \"linear_proj\", \"linear_fc1\", \"linear_fc2\"]\n"
                                       "dropout = 0.2\nalpha = 7\n")},
    {"llama, modules", llama + lora("targets = [\"q_proj\", \"v_proj\", \"up_proj\"]\ndropout = 0.1\n")},
    {"llama, everything, head", llama + lora("targets = [\"all-linear\"]\nmodules_to_save = [\"lm_head\"]\n"
                                             "rank_stabilised = true\n")},
    {"bloom, biases", bloom + lora("targets = [\"query_key_value\"]\nbias = \"lora_only\"\n")},
    {"mixtral, experts", mixtral + lora("targets = [\"linear_qkv\", \"experts\", \"gate\"]\n")},
    {"qwen3, everything", qwen3 + "ff_dim = 22\n" + lora("targets = [\"all-linear\"]\ndropout = 0.1\n")},
    {"qwen3, experts", qwen3 + "model_type = \"qwen3_moe\"\nexpert_dim = 10\nnum_experts = 3\n" +
                           lora("targets = [\"q_proj\", \"experts\", \"gate\"]\n")},
    {"olmo2, a module, norms", olmo2 + lora("targets = [\"k_proj\"]\nmodules_to_save = [\"q_norm\"]\n")},
    {"mixtral, experts, dropout", mixtral + lora("targets = [\"experts\"]\ndropout = 0.3\n")},
};

/// A job on one of `world` ranks that is never run.
session::Job planned(const std::string& model_and_lora, int world = 1) {
  const Scratch scratch;
  const auto file = scratch.path() / "planned.toml";
  // Nothing is allocated: models may be larger than this machine.
  std::ofstream(file) << "[run]\ndevice = \"cpu\"\nhost_memory = 1000\n"
                      << model_and_lora
                      << "[data]\nplugin = \"synthetic\"\n[train]\nmax_steps = 1\n"
                         "global_batch = 8\n";
  return testing::prepare_small(file.string(), {}, world, 0);
}

/// An adapter as a run of this configuration writes it, with drawn values.
void write_drawn_adapter(const std::string& config, const fs::path& folder) {
  const auto job = planned(config);
  nn::InitSource drawn(5);
  session::write_export(session::exports_of(job.plugins.strategies).front(), job.plugins, drawn, folder);
}

std::vector<checkpoint::NamedTensor> read_all(const fs::path& path) {
  const checkpoint::SafetensorsFile file(path);
  std::vector<checkpoint::NamedTensor> tensors;
  for (const auto& [name, info] : file.tensors()) {
    tensors.push_back({name, at::empty(info.shape, at::TensorOptions(checkpoint::torch_dtype(info.dtype)))});
    file.read(name, layout::Box::whole(info.shape), tensors.back().tensor);
  }
  return tensors;
}

std::string refusal(const std::string& model_and_lora) {
  try {
    planned(model_and_lora);
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

}  // namespace

TEST_CASE("float64: adapters learn the same on every layout", "[matrix]") {
  for (const auto& one : cases) {
    const auto alone = testing::train({.world = 1, .config = one.config, .steps = 5});
    REQUIRE(alone.losses.back() < alone.losses.front());
    for (const auto& [name, gradient] : alone.gradients) {
      INFO(one.name << " " << name);
      CHECK(gradient.abs().max().item<double>() > 0);
    }
    for (const char* strategy :
         {"[strategy.fsdp]\n", "[strategy.zero]\nstage = 2\n",
          "[strategy.fsdp]\nmode = \"no_shard\"\n[strategy.recompute]\n",
          "[strategy.zero]\nstage = 3\noffload_optimizer = \"cpu\"\noffload_param = \"cpu\"\n"}) {
      const int world = strategy[10] == 'f' ? 3 : 2;
      INFO(one.name << ", " << world << " ranks, " << strategy);
      CHECK(testing::differences(testing::train({.world = world, .config = one.config + strategy, .steps = 5}), alone,
                                 tolerance) == "");
    }
  }
}

TEST_CASE("only adapters, and what is asked for besides them, are trained") {
  const auto names = [](const std::string& config) {
    std::vector<std::string> list;
    for (const auto& [name, gradient] :
         testing::train({.world = 2, .config = config + "[strategy.fsdp]\n", .steps = 1}).gradients)
      list.push_back(name);
    return list;
  };
  CHECK(names(llama + lora("targets = [\"linear_qkv\"]\n")) ==
        std::vector<std::string>{
            "model.layers.0.self_attn.k_proj.lora_B.weight", "model.layers.0.self_attn.linear_qkv.lora_A.weight",
            "model.layers.0.self_attn.q_proj.lora_B.weight", "model.layers.0.self_attn.v_proj.lora_B.weight",
            "model.layers.1.self_attn.k_proj.lora_B.weight", "model.layers.1.self_attn.linear_qkv.lora_A.weight",
            "model.layers.1.self_attn.q_proj.lora_B.weight", "model.layers.1.self_attn.v_proj.lora_B.weight"});
  const auto biases = names(bloom + lora("targets = [\"dense\"]\nbias = \"lora_only\"\n"));
  CHECK(std::count(biases.begin(), biases.end(), "h.0.self_attention.dense.bias") == 1);
  CHECK(std::none_of(biases.begin(), biases.end(),
                     [](const auto& name) { return name.ends_with("query_key_value.bias"); }));
  const auto all = names(bloom + lora("targets = [\"dense\"]\nbias = \"all\"\nmodules_to_save = [\"ln_f\"]\n"));
  CHECK(std::count(all.begin(), all.end(), "h.1.self_attention.query_key_value.bias") == 1);
  CHECK(std::count(all.begin(), all.end(), "ln_f.weight") == 1);
}

TEST_CASE("an adapter begins as nothing, unless it is drawn") {
  const auto base = testing::train({.world = 1, .config = llama, .steps = 1});
  const auto zeros = testing::train({.world = 1, .config = llama + "[strategy.lora]\n", .steps = 1});
  CHECK(zeros.losses.front() == base.losses.front());
  const auto random = testing::train({.world = 1, .config = llama + lora(""), .steps = 1});
  CHECK(random.losses.front() != base.losses.front());
}

// The loss with adapters is that of the base model with W + alpha / rank · B A in place of W. (Evaluation drops
// nothing.)
TEST_CASE("merged weights compute what adapters do") {
  at::set_num_threads(1);
  for (const auto& one : cases) {
    INFO(one.name);
    const Scratch scratch;
    const auto write = [&](const char* name, const std::string& text) {
      const auto file = scratch.path() / name;
      std::ofstream(file)
          << "[run]\ndevice = \"cpu\"\nseed = 5\n[train]\nmax_steps = 1\nglobal_batch = 6\nprecision = \"fp64\"\n"
             "[data]\nplugin = \"synthetic\"\n"
          << text;
      return file.string();
    };
    const auto with = testing::prepare_small(write("with.toml", one.config), {}, 1, 0);
    const auto without = testing::prepare_small(
        write("without.toml", one.config.substr(0, one.config.find("[strategy.lora]"))), {}, 1, 0);
    const auto loss = [&](const session::Job& job, session::Session& session) {
      execution::Feed feed(job);
      return execution::Evaluator(session, feed).loss(*job.samples.train).loss;
    };
    comm::run_in_process(1, [&](comm::Communicator& communicator) {
      auto adapted = session::materialise(with, communicator);
      std::vector<const nn::Adapter*> adapters;
      for (const auto& unit : adapted.units) {
        for (const auto& adapter : unit->adapters()) adapters.push_back(&adapter);
      }
      const double expected = loss(with, adapted);
      comm::run_in_process(1, [&](comm::Communicator& other) {
        auto plain = session::materialise(without, other);
        nn::InitSource base(5);
        checkpoint::MergedSource merged(base, base, adapters);
        plain.engine->fill(merged);
        // Two products in another order, in float64.
        CHECK(loss(without, plain) == Approx(expected).epsilon(1e-12));
      });
    });
  }
}

TEST_CASE("Llama-3.1-8B's adapters count as NeMo's and as PEFT's do") {
  const std::string model = "[model]\nplugin = \"llama\"\npreset = \"llama3.1-8b\"\n[strategy.lora]\nrank = 32\n";
  const auto roles = planned(model + "targets = [\"linear_qkv\", \"linear_proj\"]\n");
  CHECK_THAT(roles.model->changes, Contains("18,874,368 trainable + 8,030,261,248 non-trainable = 8,049,135,616"));
  CHECK_THAT(roles.model->changes, Contains("Adding lora to: model.layers.31.self_attn.linear_qkv\n"));
  CHECK_THAT(roles.model_summary(), Contains("model llama: 8,030,261,248 parameters"));
  CHECK_THAT(planned(model + "targets = [\"q_proj\", \"k_proj\", \"v_proj\", \"o_proj\"]\n").model->changes,
             Contains("27,262,976 trainable + 8,030,261,248 non-trainable"));
}

TEST_CASE("what is to be trained whole gets no adapter, under any of its names") {
  const auto changes = [](const std::string& model, const std::string& target, const std::string& whole) {
    return planned(model + lora("targets = [\"" + target + "\"]\nmodules_to_save = [" + whole + "]\n")).model->changes;
  };
  const auto experts = changes(mixtral, "linear_proj", "\"experts\"");
  CHECK_THAT(experts, Contains("with strategies: 3,456 trainable + "));  // 2 · 108 besides o_proj, and 2 · 1,620
  CHECK_THAT(experts, !Contains("Adding lora to: model.layers.0.block_sparse_moe"));
  CHECK_THAT(changes(mixtral, "linear_proj", "\"linear_fc1\""), Contains("with strategies: 2,376 trainable + "));
  for (const char* router : {"\"router\"", "\"gate\"", "\"block_sparse_moe.gate\""})
    CHECK_THAT(changes(mixtral, "linear_proj", router), Contains("with strategies: 324 trainable + "));
  for (const char* whole : {"\"linear_qkv\"", "\"q_proj\", \"k_proj\", \"v_proj\""}) {
    const auto text = changes(llama, "down_proj", whole);
    CHECK_THAT(text, Contains("with strategies: 1,320 trainable + "));  // 2 · 120 besides down_proj, and 2 · 540
    CHECK_THAT(text, !Contains("Adding lora to: model.layers.0.self_attn"));
  }
}

TEST_CASE("a part of what is stored as one is not trained by itself, nor in silence with the rest") {
  const auto text =
      refusal(llama + lora("targets = [\"down_proj\"]\nmodules_to_save = [\"q_proj\", \"mlp.up_proj\"]\n"));
  CHECK_THAT(text, Contains("modules_to_save names q_proj, stored and trained together with k_proj and v_proj") &&
                       Contains("fix: name all of them: \"q_proj\", \"k_proj\", \"v_proj\"") &&
                       Contains("modules_to_save names up_proj, stored and trained together with gate_proj"));
  const auto biased = llama + "attention_bias = true\n";
  CHECK_THAT(
      refusal(biased + lora("targets = [\"q_proj\"]\nbias = \"lora_only\"\n")),
      Contains("strategy.lora.bias is \"lora_only\", and of \"q_proj\", \"k_proj\", \"v_proj\", whose biases are "
               "stored and trained together, only q_proj has adapters") &&
          Contains("or the role \"linear_qkv\""));
  // Two layers: A 3 · 18, B 30 · 3, and 30 biases.
  CHECK_THAT(planned(biased + lora("targets = [\"linear_qkv\"]\nbias = \"lora_only\"\n")).model->changes,
             Contains("with strategies: 348 trainable + "));
}

TEST_CASE("all-linear is every module of a block, a mixture's router and experts too") {
  const auto text = planned(mixtral + lora("targets = [\"all-linear\"]\n")).model->changes;
  for (const char* module :
       {"self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj", "self_attn.o_proj", "block_sparse_moe.gate",
        "block_sparse_moe.experts.gate_up_proj", "block_sparse_moe.experts.down_proj"}) {
    CHECK_THAT(text, Contains(cat("Adding lora to: model.layers.1.", module, "\n")));
  }
  CHECK_THAT(text, !Contains("lm_head"));
  // Rank 3 in two layers: q, k, v, o 108 each; router 3 · (18 + 3); three experts with gate and up 3 · (18 + 20), down
  // 3 · (10 + 18).
  CHECK_THAT(text, Contains("with strategies: 2,178 trainable + "));
}

TEST_CASE("a run that would train nothing is refused") {
  CHECK_THAT(refusal(llama + lora("targets = []\n")), Contains("strategy.lora.targets is empty") && Contains(".toml:"));
  CHECK_THAT(planned(llama + lora("targets = []\nmodules_to_save = [\"norm\"]\n")).model->changes,
             Contains("with strategies: 18 trainable + "));
}

TEST_CASE("names that mean nothing in the model are refused, all at once, with what can be named there") {
  const auto text = refusal(mixtral + lora("targets = [\"linear_qvk\", \"w1\", \"lm_head\", \"model.norm\"]\n"
                                           "modules_to_save = [\"head\", \"w2\", \"all-linear\"]\n"));
  CHECK_THAT(text,
             Contains("strategy.lora.targets names \"linear_qvk\", but the model has: all-linear, linear_qkv, "
                      "q_proj, k_proj, v_proj, linear_proj, o_proj, router, gate, linear_fc1, linear_fc2, experts\n"));
  CHECK_THAT(text, Contains("did you mean 'linear_qkv'?"));
  CHECK_THAT(text, Contains("use \"experts\": each expert gets") && Contains("use \"experts\", which trains them all"));
  CHECK_THAT(text, Contains("names \"lm_head\", which gets no adapter") &&
                       Contains("fix: train it whole: strategy.lora.modules_to_save = [\"lm_head\"]\n") &&
                       Contains("strategy.lora.modules_to_save = [\"norm\"]"));
  CHECK_THAT(text,
             Contains("strategy.lora.modules_to_save names \"head\", but the model has: embed_tokens, ") &&
                 Contains("strategy.lora.modules_to_save names \"all-linear\", but the model has: embed_tokens, "));
  CHECK_THAT(refusal(gpt + lora("modules_to_save = [\"lm_head\"]\n")),
             Contains("names \"lm_head\", but this model's head is its embedding") &&
                 Contains("fix: name \"wte\", which trains both"));
  CHECK_THAT(refusal(gpt + lora("targets = [\"lm_head\"]\n")),
             Contains("modules_to_save = [\"wte\"], since this model's head is its embedding"));
  CHECK_THAT(refusal(llama + lora("targets = [\"linear_qkv\", \"q_proj\"]\n")),
             Contains("names model.layers.0.self_attn.q_proj.weight twice"));
}

TEST_CASE("an adapter to start from is judged before the run, at the option that names it") {
  const Scratch scratch;
  const auto config = mixtral + lora("targets = [\"experts\"]\nalpha = 6\n");
  const auto start = [&](const fs::path& folder) {
    return refusal(config + "adapter = \"" + folder.string() + "\"\n");
  };
  CHECK_THAT(start(scratch.path() / "nowhere"),
             Contains(".toml:") && Contains("strategy.lora.adapter: ") && Contains("there is no such folder") &&
                 Contains("fix: name a folder with adapter_config.json and adapter_model.safetensors"));
  fs::create_directories(scratch.path() / "model");
  std::ofstream(scratch.path() / "model/adapter_config.json") << "{}";
  CHECK_THAT(start(scratch.path() / "model"), Contains("it has no adapter_model.safetensors"));

  const auto right = scratch.path() / "right";
  write_drawn_adapter(config, right);
  CHECK(start(right) == "");
  CHECK_THAT(refusal(config + "rank_stabilised = true\nadapter = \"" + right.string() + "\"\n"),
             Contains("its use_rslora is false, strategy.lora.rank_stabilised is true") &&
                 Contains("fix: set strategy.lora.rank_stabilised = false"));

  const auto unshared = scratch.path() / "unshared";
  fs::create_directories(unshared);
  fs::copy_file(right / "adapter_config.json", unshared / "adapter_config.json");
  auto tensors = read_all(right / "adapter_model.safetensors");
  for (auto& [name, value] : tensors) {
    if (name.ends_with("w3.lora_A.weight")) value.add_(1);
  }
  checkpoint::write_safetensors(unshared / "adapter_model.safetensors", tensors);
  CHECK_THAT(start(unshared), Contains("w3.lora_A.weight differs from the A of the modules that share") &&
                                  Contains("each expert's w1 and w3 have an A of their own there") &&
                                  Contains("such an adapter cannot be loaded: let peft merge it"));

  for (auto& [name, value] : tensors) value = value.to(at::kLong);
  checkpoint::write_safetensors(unshared / "adapter_model.safetensors", tensors);
  CHECK_THAT(start(unshared), Contains(" is of Long, and weights are floating-point numbers"));
}

TEST_CASE("what peft's adapters may be and ours are not is refused by its name") {
  const Scratch scratch;
  std::ofstream(scratch.path() / "adapter_model.safetensors") << "never read";
  const auto refusal_of = [&](const std::string& json) {
    std::ofstream(scratch.path() / "adapter_config.json") << json;
    return refusal(llama + lora("adapter = \"" + scratch.path().string() + "\"\n"));
  };
  const std::vector<std::pair<std::string, std::string>> features{{"alpha_pattern", R"({"q_proj":32})"},
                                                                  {"rank_pattern", R"({"q_proj":2})"},
                                                                  {"use_dora", "true"},
                                                                  {"lora_bias", "true"},
                                                                  {"layer_replication", "[[0,2]]"},
                                                                  {"peft_type", "\"LOHA\""},
                                                                  {"target_modules", "3"},
                                                                  {"target_modules", "[3]"}};
  for (const auto& [key, value] : features) {
    CHECK_THAT(refusal_of(cat(R"({"r": 3, "lora_alpha": 3, ")", key, "\": ", value, "}")),
               Contains(cat("adapter_config.json: its ", key, " is ", value)) && Contains("merge_and_unload"));
  }
  // What peft writes where they are off: the fault is another.
  CHECK_THAT(refusal_of(R"({"r": 3, "lora_alpha": 3, "peft_type": "LORA", "alpha_pattern": {}, "rank_pattern": {},
                           "use_dora": false, "lora_bias": false, "layer_replication": null})"),
             Contains("adapter_model.safetensors") && !Contains("Capstan does not know"));
}
