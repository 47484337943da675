#pragma once
#include <capstan/base/error.h>
#include <capstan/config/options.h>
#include <capstan/nn/batch.h>

#include <cstdint>
#include <string>

namespace distill {

struct DistillOptions {
  std::string teacher;
  double alpha = 0.5;
  double temperature = 1;
  std::int64_t top_k = 0;
  std::string outside = "tail";

  static void describe(capstan::config::OptionTable<DistillOptions>& t);
};

/// How the two models' words are compared. An option that says nothing here and that was set nevertheless is a fault.
capstan::nn::Comparison comparison_of(const capstan::config::Options<DistillOptions>& options,
                                      capstan::Diagnostics& diagnostics);

}  // namespace distill
