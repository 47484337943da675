#pragma once
#include <capstan/config/file_keys.h>

#include <optional>
#include <string>
#include <vector>

#include "imports/values.h"

namespace import_deepspeed {

using imports::JsonType;

/// How the value of a DeepSpeed key becomes ours.
enum class Take {
  copied,        ///< the same value
  ignored,       ///< no option of ours; `why` says why none is needed
  required,      ///< no option of ours, and only the value `required` is supported
  optimizer,     ///< an optimizer's name
  precision,     ///< an `enabled`: train.precision
  loss_scale,    ///< 0: dynamic
  scale_power,   ///< n: 2^n
  betas,         ///< Adam's or Lion's two decay rates
  dtype,         ///< dtype of communication: "fp32", "fp16" or "bf16", in any letters
  schedule,      ///< a scheduler's name
  offload,       ///< a device: "none" or "cpu"
  offload_flag,  ///< true: "cpu"
  cosine_end,    ///< a fraction of the learning rate: optimizer.min_lr
  off,           ///< a table that may not say "enabled": true
};

/// One key of a DeepSpeed configuration.
struct DeepSpeedKey {
  std::string path;  ///< "zero_optimization.stage", or the name of a table that is ignored as a whole
  JsonType type = JsonType::anything;
  Take take = Take::ignored;
  std::string ours = {};      ///< "strategy.zero.stage"; empty where there is none
  std::string why = {};       ///< why it is ignored, or a note about it; may be empty
  bool may_be_auto = false;   ///< "auto" leaves our option out
  double least = 0;           ///< numbers are at least this
  std::string required = {};  ///< for Take::required, as JSON
  bool is_above = false;      ///< numbers are above `least`
  std::optional<double> most = {};

  bool takes(double number) const;
};

/// Every key that `capstan import-deepspeed` knows, in DeepSpeed's order.
const std::vector<DeepSpeedKey>& deepspeed_keys();

/// The same as `capstan reference --files` prints it.
std::vector<capstan::config::FileKeys> deepspeed_file_keys();

/// "DeepSpeed's key -> ours", a Markdown table, which the command prints where it is given no file.
std::string deepspeed_keys_markdown();

}  // namespace import_deepspeed
