#pragma once
// The tiny models of models.py and jobs that start from them.
#include <capstan/base/error.h>
#include <capstan_places.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <set>
#include <string>
#include <vector>

#include "parity/python.h"
#include "support/job.h"

namespace parity {

namespace setup = capstan::setup;
namespace job = capstan::job;

struct Case {
  std::string name;
  std::string plugin;
  bool in_transformers_4 = true;
  std::string options = {};  ///< more of [model], besides what the folder says
  bool is_inside = false;    ///< a text model in a model around it
};

inline const std::vector<Case> all_cases{
    {"gpt2", "gpt"},
    {"gpt2-untied", "gpt"},
    {"bloom", "bloom"},
    {"bloom-6-heads", "bloom"},
    {"llama", "llama"},
    {"llama-3.1", "llama"},
    {"llama-3.2", "llama"},
    {"llama-biases", "llama"},
    {"mistral", "llama"},
    {"mistral-window", "llama"},
    {"qwen2", "llama"},
    {"qwen2-window", "llama"},
    {"llama-yarn", "llama"},
    {"mixtral", "mixtral"},
    {"mixtral-aux", "mixtral"},
    {"mixtral-top-3", "mixtral"},
    {"mixtral-window", "mixtral"},
    {"qwen3", "qwen3"},
    {"qwen3-window", "qwen3"},
    {"qwen3-yarn", "qwen3"},
    {"qwen3-biases", "qwen3"},
    {"qwen3-moe", "qwen3"},
    {"qwen3-moe-aux", "qwen3"},
    {"qwen3-moe-window", "qwen3"},
    {"qwen3-moe-dense", "qwen3"},
    {"olmo2", "olmo2"},
    {"olmo2-biases", "olmo2"},
    {"gpt_neox", "gpt_neox"},
    {"gpt_neox-in-turn", "gpt_neox"},
    {"phi3", "phi3"},
    {"phi3-short", "phi3", true, "seq_length = 100\n"},
    {"phi3-long", "phi3", false},
    {"ministral", "ministral"},
    {"ministral3", "ministral3", false},
    {"ministral3-window", "ministral3", false},
    {"gemma2", "gemma2"},
    {"gemma2-biases", "gemma2"},
    {"gemma3", "gemma3"},
    {"gemma3-capped", "gemma3"},
    {"gemma4", "gemma4", false},
    {"gemma4-inputs", "gemma4", false},
    {"gemma4-experts", "gemma4", false},
    {"gemma4-experts-sharing", "gemma4", false},
    {"gpt-oss", "gpt_oss"},
    {"gpt-oss-aux", "gpt_oss", false},
    {"glm4-moe", "glm4_moe"},
    {"glm4-moe-groups", "glm4_moe"},
    {"qwen3.5", "qwen3_5", false},
    {"qwen3.5-moe", "qwen3_5", false},
    {"qwen3-next", "qwen3_5", false},
    {"smollm3", "smollm3"},
    {"smollm3-window", "smollm3"},
    {"granite", "granite"},
    {"granite-yarn", "granite"},
    {"olmo3", "olmo3"},
    {"olmo3-yarn", "olmo3"},
    {"glm4", "glm4"},
    {"glm", "glm4"},
    {"deepseek-v3", "deepseek_v3"},
    {"deepseek-v3-states", "deepseek_v3"},
    {"gemma", "gemma"},
    {"starcoder2", "starcoder2"},
    {"starcoder2-plain", "starcoder2"},
    {"olmoe", "olmoe"},
    {"seed-oss", "seed_oss"},
    {"exaone4", "exaone4"},
    {"exaone4-global", "exaone4"},
    {"cohere2", "cohere"},
    {"cohere", "cohere"},
    {"granite-moe", "granite_moe"},
    {"granite-moe-shared", "granite_moe"},
    {"hunyuan", "hunyuan_v1_dense"},
    {"hunyuan-dynamic", "hunyuan_v1_dense"},
    {"dots1", "dots1"},
    {"ernie4.5", "ernie4_5"},
    {"ernie4.5-moe", "ernie4_5_moe"},
    {"nemotron", "nemotron"},
    {"stablelm", "stablelm"},
    {"stablelm-parallel", "stablelm"},
    {"apertus", "apertus", false},
    {"phi", "phi"},
    {"phi-grouped", "phi"},
    {"gptj", "gptj"},
    {"gptj-wide", "gptj"},
    {"deepseek-v2", "deepseek_v3", false},  // transformers 4 leaves YaRN out of the scores of this family
    {"deepseek-v2-latent", "deepseek_v3"},
    {"qwen2-moe", "qwen2_moe"},
    {"qwen2-moe-dense", "qwen2_moe"},
    {"minimax-m2", "minimax_m2", false},
    {"minimax-m2-whole", "minimax_m2", false},
    {"glm4-moe-lite", "glm4_moe_lite", false},
    {"glm4-moe-lite-listed", "glm4_moe_lite", false},
    {"mistral3", "llama", true, "", true},
    {"mistral3-tied", "llama", true, "", true},
    {"qwen3-vl", "qwen3", true, "", true},
    {"qwen3-vl-tied", "qwen3", true, "", true},
    {"ministral3-inside", "ministral3", false, "", true},
    {"gemma3-inside", "gemma3", true, "", true},
    {"gemma4-inside", "gemma4", false, "", true},
    {"qwen3.5-inside", "qwen3_5", false, "", true},
};

inline const bool is_transformers_4 = [] {
  const char* python = std::getenv("CAPSTAN_PARITY_PYTHON");
  return python && std::string(python).find(".deps/venv/") != std::string::npos;
}();

/// Those that the environment names in CAPSTAN_PARITY_CASES ("gemma2,gemma3-window"), for whoever works on them; or
/// all.
inline const std::vector<Case> cases = [] {
  const char* given = std::getenv("CAPSTAN_PARITY_CASES");
  const auto only = given ? "," + std::string(given) + "," : std::string();
  std::vector<Case> some;
  for (const auto& one : all_cases) {
    if (is_transformers_4 && !one.in_transformers_4) continue;
    if (!given || only.find("," + one.name + ",") != std::string::npos) some.push_back(one);
  }
  return some;
}();

/// tools/nightly sets CAPSTAN_PARITY_ALL: then each comparison sees each case.
inline const bool sees_all = std::getenv("CAPSTAN_PARITY_ALL") != nullptr;

/// What the long comparisons see (training, 32 and 16 bits, generation): the first case of each plugin, and those that
/// differ from it there.
inline const std::vector<Case> long_cases = [] {
  const std::set<std::string> others{"llama-3.1",   "mistral-window", "mixtral-aux",    "qwen3-moe",
                                     "phi3-long",   "gemma4-inputs",  "gemma4-experts", "glm4-moe-groups",
                                     "qwen3.5-moe", "qwen3-next",     "olmo3-yarn",     "deepseek-v2"};
  std::vector<Case> some;
  std::set<std::string> plugins;
  for (const auto& one : cases) {
    const bool is_first = plugins.insert(one.plugin).second;
    if (is_first || others.contains(one.name) || sees_all) some.push_back(one);
  }
  return some;
}();

/// Those that train for 20 steps, in both precisions: one of each kind of parameters (vectors and matrices, experts
/// with an auxiliary loss, experts' biases, a state). Others train for 5 steps in float64, which is what a family adds.
inline bool trains_long(const Case& one) {
  const std::set<std::string> kinds{"gpt2", "llama", "mixtral-aux", "gpt-oss", "qwen3.5"};
  return kinds.contains(one.name) || sees_all;
}

/// The reference folders, made once.
inline const std::filesystem::path& folders() {
  static const MadeFolder made("models.py", {});
  return made.path();
}

/// steps-<dtype>.safetensors of the folders of long_cases, whose making takes longest: made for the first that asks.
inline std::filesystem::path steps(const std::string& name, const std::string& dtype) {
  static const bool made = [] {
    std::vector<std::string> arguments{folders().string(), "steps"};
    for (const auto& one : long_cases) arguments.push_back(one.name + (trains_long(one) ? "" : ":short"));
    run_python("models.py", arguments);
    return true;
  }();
  CAPSTAN_ASSERT(made);
  return folders() / name / ("steps-" + dtype + ".safetensors");
}

inline job::Job prepare(const std::string& plugin, const std::filesystem::path& folder, const std::string& precision,
                        const std::string& tokenizer = "byte", const std::string& device = "cpu",
                        const std::string& options = {}) {
  const auto config = folder / ("job-" + precision + ".toml");
  std::ofstream(config)
      << "[run]\ndevice = \"" << device << "\"\n[model]\nplugin = \"" << plugin << "\"\npath = \"" << folder.string()
      << "\"\n"
      << options << "[data]\nplugin = \"squad\"\ntokenizer = \"" << tokenizer
      << "\"\ntrain = \"" CAPSTAN_SOURCE_DIR
         "/configs/data/mini_squad_train.json\"\nmax_length = 97\n"
         "[train]\nmax_steps = 20\nglobal_batch = 6\naccumulation = 2\nmax_new_tokens = 12\nprecision = \""
      << precision
      << "\"\n[optimizer]\nlr = 1e-3\nbetas = [0.9, 0.95]\nweight_decay = 0.1\nwarmup_steps = 3\n"
         "schedule = \"linear\"\nclip = 1.0\n";
  setup::JobRequest request;
  request.file = config.string();
  return capstan::testing::job_of(request);
}

inline job::Job prepare(const Case& one, const std::string& precision) {
  return prepare(one.plugin, folders() / one.name, precision, "byte", "cpu", one.options);
}

}  // namespace parity
