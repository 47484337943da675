#pragma once
#include <capstan/base/error.h>
#include <capstan/base/export.h>
#include <capstan/plugin/host.h>

#include <optional>
#include <string>
#include <vector>

#include "job/job.h"

CAPSTAN_BEGIN_NAMESPACE
namespace predict {

/// Where data.max_length is "auto": the request with what that means, the tokens of the longest sample, rounded up as
/// rows are, and no more than the model has positions; 0 where the longest sample is not known, and `unknown` says why.
/// Reads the data, and tokenizes all of it once.
setup::JobRequest settle_length(const setup::JobRequest& request, plugin::Host& host, Diagnostics& unknown);

/// What a GPU's memory decides, of a request whose length is settled:
/// - where a strategy's option `auto` is true: the first of that strategy's savings, after none at all, with which the
///   predicted memory fits into the request's gpu_room with 5 % to spare, or the one that takes least;
/// - where train.micro_batch is "auto": the largest that divides the global batch over the data ranks and fits so; 1
///   where none does. A run that resumes takes the number of the run that it continues;
/// - where train.regather is "auto" and parameters would stay gathered through a step: "micro_step" if that does not
///   fit so.
setup::JobRequest settle_by_memory(const setup::JobRequest& request, plugin::Host& host);

/// A job with other options, as far as its prediction: no file of the data is opened, and host memory is not judged.
/// What depends on other options is settled again. Nothing where it cannot be made.
std::optional<job::Job> predict_with(const setup::JobRequest& request, const std::vector<std::string>& overrides,
                                     plugin::Host& host);

}  // namespace predict
CAPSTAN_END_NAMESPACE
