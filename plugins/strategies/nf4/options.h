#pragma once
#include <capstan/strategy.h>

#include <string>
#include <vector>

namespace nf4 {

struct Nf4Options {
  std::vector<std::string> targets{"all-linear"};
  static void describe(capstan::config::OptionTable<Nf4Options>& t);
};

}  // namespace nf4
