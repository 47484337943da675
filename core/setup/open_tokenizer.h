#pragma once
#include "setup/job.h"

CAPSTAN_BEGIN_NAMESPACE
namespace setup {

/// Makes job.tokenizer of data.tokenizer, once the model's options are known; faults go to `diagnostics`.
void open_tokenizer(Job& job, const HubCache& hub, Diagnostics& diagnostics);

}  // namespace setup
CAPSTAN_END_NAMESPACE
