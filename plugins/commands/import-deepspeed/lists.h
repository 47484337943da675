#pragma once
#include <string>
#include <vector>

namespace import_deepspeed {

/// A key of one program; see plugin::Hint.
struct Line {
  std::string key;
  std::string ours;
  std::string why;
};

/// What the workshop's env_vars.sh files and sbatch scripts export.
std::vector<Line> workshop_variables();
/// Hugging Face's TrainingArguments.
std::vector<Line> training_arguments();
/// The fsdp_config of TrainingArguments.
std::vector<Line> fsdp_config();
/// What follows `nemo llm finetune`: --factory and dotted overrides.
std::vector<Line> nemo_overrides();
/// Flags of torchrun, accelerate launch and deepspeed, without "--" and with '_' where these take '-' too.
std::vector<Line> launcher_flags();

}  // namespace import_deepspeed
