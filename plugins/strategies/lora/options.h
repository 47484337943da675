#pragma once
#include <capstan/strategy.h>

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace lora {

struct LoraOptions {
  std::int64_t rank = 8;
  std::optional<double> alpha;
  double dropout = 0;
  std::vector<std::string> targets{"linear_qkv", "linear_proj"};
  std::string init = "kaiming";
  bool rank_stabilised = false;
  std::string bias = "none";
  std::vector<std::string> modules_to_save;
  std::optional<std::string> adapter;
  static void describe(capstan::config::OptionTable<LoraOptions>& t);

  double alpha_value() const { return alpha.value_or(static_cast<double>(rank)); }
};

}  // namespace lora
