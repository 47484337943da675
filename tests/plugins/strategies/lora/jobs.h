#pragma once
// Models of odd sizes, and jobs with adapters that are never run.
#include <capstan/base/error.h>

#include <filesystem>
#include <fstream>
#include <string>

#include "checkpoint/scratch.h"
#include "nn/init_source.h"
#include "support/small_run.h"
#include "train/exports.h"

namespace lora_test {

inline const std::string sizes = "vocab_size = 261\nnum_layers = 2\nseq_length = 24\ninit_std = 0.2\n";
inline const std::string llama =
    "[model]\nplugin = \"llama\"\nhidden_size = 18\nnum_heads = 3\nnum_kv_heads = 1\nff_dim = 22\n" + sizes;
inline const std::string gpt =
    "[model]\nplugin = \"gpt\"\nhidden_size = 12\nnum_heads = 3\nff_dim = 22\ndropout = 0.1\n" + sizes;
inline const std::string bloom = "[model]\nplugin = \"bloom\"\nhidden_size = 12\nnum_heads = 3\n" + sizes;
inline const std::string mixtral =
    "[model]\nplugin = \"mixtral\"\nhidden_size = 18\nnum_heads = 3\nff_dim = 10\nnum_experts = 3\n" + sizes;

inline const std::string qwen3 =
    "[model]\nplugin = \"qwen3\"\nhidden_size = 18\nnum_heads = 3\nnum_kv_heads = 1\nhead_dim = 4\n" + sizes;
inline const std::string olmo2 = "[model]\nplugin = \"olmo2\"\nhidden_size = 18\nnum_heads = 3\nff_dim = 22\n" + sizes;

inline std::string lora_table(const std::string& options) {
  return "[strategy.lora]\nrank = 3\ninit = \"random\"\n" + options;
}

/// A job on one of `world` ranks.
inline capstan::job::Job planned(const std::string& model_and_lora, int world = 1,
                                 capstan::setup::Purpose purpose = capstan::setup::Purpose::train) {
  const Scratch scratch;
  const auto file = scratch.path() / "planned.toml";
  // Nothing is allocated: models may be larger than this machine.
  std::ofstream(file) << "[run]\ndevice = \"cpu\"\nhost_memory = 1000\n"
                      << model_and_lora
                      << "[data]\nplugin = \"synthetic\"\neval_samples = 8\n[train]\nmax_steps = 1\n"
                         "global_batch = 8\n";
  capstan::setup::JobRequest request;
  request.file = file.string();
  request.world_size = world;
  request.purpose = purpose;
  return capstan::testing::job_of(request);
}

inline std::string refusal(const std::string& model_and_lora,
                           capstan::setup::Purpose purpose = capstan::setup::Purpose::train) {
  try {
    planned(model_and_lora, 1, purpose);
  } catch (const capstan::Error& error) {
    return error.what();
  }
  return "";
}

/// An adapter as a run of this configuration writes it, with drawn values.
inline void write_drawn_adapter(const std::string& config, const std::filesystem::path& folder) {
  const auto job = planned(config);
  capstan::nn::InitSource drawn(5);
  const auto exported = capstan::job::exports_of(job.plugins.strategies).front();
  capstan::train::write_export(exported, job.plugins, drawn, folder);
}

}  // namespace lora_test
