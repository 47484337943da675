#pragma once
// Jobs of small models on a GPU that does not exist, for tests of what is predicted of them.
#include <capstan/base/text.h>

#include "predict/dry_run.h"
#include "support/folder.h"
#include "support/job.h"

namespace capstan::testing {

inline constexpr std::int64_t rows = 4, length = 64;  // statistics of this number of tokens fill whole blocks

inline job::Job job_of(const std::string& config, const std::string& device, int world = 1,
                       const std::vector<std::string>& overrides = {}, bool sizes_only = false) {
  const test::Folder folder;
  setup::JobRequest request;
  request.file = folder.write("job.toml", config);
  request.overrides = overrides;
  request.device = device;
  request.world_size = world;
  request.activations = true;
  request.sizes_only = sizes_only;
  return job_of(request);
}

inline std::string small(const std::string& model, const std::string& precision, const std::string& strategies) {
  return cat("[model]\nvocab_size = 261\nnum_layers = 2\nseq_length = ", length, "\nhidden_size = 64\nnum_heads = 4\n",
             model, "[data]\nplugin = \"synthetic\"\nmax_length = ", length,
             "\n[train]\nmax_steps = 1\nmicro_batch = ", rows, "\nprecision = \"", precision,
             "\"\n[run]\nhost_memory = 1000\n", strategies);
}

inline predict::MicroStepMemory dry_run_on_gpu(const job::Job& job) {
  const auto options =
      job::engine_options(job.config, job.topology, job.samples, *job.model, c10::Device(c10::DeviceType::CUDA, 0));
  return predict::dry_run({{job.config, job.plugins, job.topology, job.samples, options, job.frozen}}).front();
}

inline const std::string gpt = "plugin = \"gpt\"\nff_dim = 256\ndropout = 0.1\nattention_dropout = 0.0\n";
inline const std::string bloom = "plugin = \"bloom\"\ndropout = 0.1\n";
inline const std::string llama = "plugin = \"llama\"\nnum_kv_heads = 2\nff_dim = 160\n";
// 16 of 64 positions are computed in blocks of the window, 48 with a mask over the row.
inline const std::string mistral = llama + "model_type = \"mistral\"\nsliding_window = ";
inline const std::string mixtral =
    "plugin = \"mixtral\"\nnum_kv_heads = 2\nff_dim = 96\nnum_experts = 4\nrouter_aux_loss = true\n";
inline const std::string lora =
    "[strategy.lora]\nrank = 8\ntargets = [\"linear_qkv\", \"linear_proj\", \"linear_fc1\"]\n";
inline const std::string recompute = "[strategy.recompute]\n";

}  // namespace capstan::testing
