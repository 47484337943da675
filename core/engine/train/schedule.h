#pragma once
#include <capstan/base/export.h>

#include <cstdint>

#include "setup/options.h"

CAPSTAN_BEGIN_NAMESPACE
namespace train {

/// The learning rate of step s (from 0) of N, with W warm-up steps: lr·(s+1)/(W+1) (or lr·s/W from zero) while s < W;
/// then, with t = (s−W)/(N−W): cosine min + (lr−min)·(1+cos πt)/2, linear lr + (min−lr)·t, or constant lr.
double learning_rate(const setup::OptimizerOptions& options, std::int64_t step, std::int64_t steps);

}  // namespace train
CAPSTAN_END_NAMESPACE
