#pragma once
#include <string>
#include <vector>

namespace capstan::config {

/// A key of one program; see ForeignKey.
struct ForeignLine {
  std::string key;
  std::string ours;
  std::string why;
};

/// What the workshop's env_vars.sh files and sbatch scripts export.
std::vector<ForeignLine> workshop_variables();
/// Hugging Face's TrainingArguments.
std::vector<ForeignLine> training_arguments();
/// The fsdp_config of TrainingArguments.
std::vector<ForeignLine> fsdp_config();
/// What follows `nemo llm finetune`: --factory and dotted overrides.
std::vector<ForeignLine> nemo_overrides();
/// Flags of torchrun, accelerate launch and deepspeed, without "--" and with '_' where these take '-' too.
std::vector<ForeignLine> launcher_flags();

}  // namespace capstan::config
