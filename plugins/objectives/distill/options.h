#pragma once
#include <capstan/base/error.h>
#include <capstan/config/options.h>
#include <cstdint>
#include <string>

#include "divergence.h"

namespace distill {

struct DistillOptions {
  std::string teacher;
  double alpha = 0.5;
  double temperature = 1;
  std::int64_t top_k = 0;
  std::string outside = "tail";

  static void describe(capstan::config::OptionTable<DistillOptions>& t);
};

/// How the two models' next words are compared.
struct Comparison {
  double temperature = 1;  ///< above 0; logits of both are divided by it
  std::int64_t words = 0;  ///< how many the teacher says of each row; 0: it says all of them
  TeacherWords::Rest rest = TeacherWords::Rest::tail;  ///< what becomes of the others
};

/// An option that says nothing here and that was set nevertheless is a fault.
Comparison comparison_of(const capstan::config::Options<DistillOptions>& options, capstan::Diagnostics& diagnostics);

}  // namespace distill
