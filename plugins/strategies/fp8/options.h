#pragma once
#include <capstan/strategy.h>

#include <cstdint>
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
  static void describe(capstan::config::OptionTable<Fp8Options>& t);
};

}  // namespace fp8
