#pragma once
#include <capstan/base/error.h>
#include <capstan/base/export.h>

#include <cstdint>
#include <string>
#include <vector>

#include "setup/options.h"

CAPSTAN_BEGIN_NAMESPACE
namespace setup {

/// The options of [optimizer] that say how the learning rate follows from the step.
void describe_schedule(config::OptionTable<OptimizerOptions>& t);
/// Is it one of these, or lr?
bool is_of_schedule(const std::string& key);

/// W, the warm-up's steps in a run of `steps`.
std::int64_t warmup_of(const OptimizerOptions& options, std::int64_t steps);
/// D, the steps of wsd's decay, which are the run's last ones.
std::int64_t decay_of(const OptimizerOptions& options, std::int64_t steps);

/// The learning rate of step s (from 0) of N, with W warm-up steps: lr·(s+1)/(W+1) (or lr·s/W from zero) while s < W;
/// then, with t = (s−W)/(N−W):
///   constant         lr
///   linear           lr + (min−lr)·t
///   cosine           min + (lr−min)·(1+cos πt)/2
///   cosine_restarts  the same with the fraction of t·restarts in t's place, and min at the end
///   inverse_sqrt     lr·√(W/s), or lr·√(T/(s+T)) with T = 10,000 where W is 0, and at least min
///   wsd              lr, and in the last D steps min + (lr−min)·f(u) with u = (s−(N−D))/D, where f is 1−u, 1−√u or
///                    (1+cos πu)/2
double learning_rate(const OptimizerOptions& options, std::int64_t step, std::int64_t steps);

/// Faults of the schedule's options: those without effect, and those that contradict each other.
void check_schedule(const config::Options<OptimizerOptions>& options, Diagnostics& diagnostics);
/// What a run of `steps` has no room for: a warm-up and a decay, or its restarts.
void check_schedule_length(const config::Options<OptimizerOptions>& options, std::int64_t steps,
                           Diagnostics& diagnostics);

/// A warning where a run of `steps`, which may be a short trial, is over before its warm-up; else empty.
std::string long_warmup(const config::Options<OptimizerOptions>& options, std::int64_t steps);

/// What the learning rate follows from in a run of `steps`, besides the step; for checkpoints.
std::string schedule_text(const OptimizerOptions& options, std::int64_t steps);
/// What is not as a checkpoint has it, in words.
std::vector<std::string> schedule_changes(const std::string& saved, const std::string& now);

}  // namespace setup
CAPSTAN_END_NAMESPACE
