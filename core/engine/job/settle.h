#pragma once
#include <capstan/base/error.h>
#include <capstan/base/export.h>
#include <capstan/plugin/host.h>

#include <optional>

#include "job/job.h"

CAPSTAN_BEGIN_NAMESPACE
namespace job {

/// The same request with a value for each option that says "auto", which prepare() then reads as any other: the length
/// of samples, a strategy's saving, the micro-batch, how often parameters are gathered. What needs a prediction is
/// chosen by those of the first rank, so that all ranks choose alike. An option for which nothing can be chosen stays
/// as it is, and prepare() says why; `unknown` has what it does not know. Where an option may be open it asks
/// libcapstan_predict.so. Throws Error as setup::read_configuration does.
setup::JobRequest settle(const setup::JobRequest& request, plugin::Host& host, Diagnostics& unknown);

/// Settles what a user wrote, and prepares it. As prepare() otherwise.
std::optional<Job> make_job(const setup::JobRequest& request, plugin::Host& host, Diagnostics& faults);

}  // namespace job
CAPSTAN_END_NAMESPACE
