#pragma once
#include <capstan/strategy.h>

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace fp8 {

struct Fp8Options {
  std::string recipe = "rowwise";
  std::vector<std::string> targets{"all-linear"};
  std::int64_t skip_first = 0;
  std::int64_t skip_last = 0;
  std::string backward = "e4m3";
  std::string accumulate = "fast";
  std::string store = "bf16";
  std::string gather = "bf16";
  std::optional<std::string> reference;
  double band = 0.02;
  std::int64_t window = 50;
  static void describe(capstan::config::OptionTable<Fp8Options>& t);
};

}  // namespace fp8
