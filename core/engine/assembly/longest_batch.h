#pragma once
#include <capstan/base/export.h>
#include <capstan/nn/batch.h>

#include "assembly/dry_run.h"

CAPSTAN_BEGIN_NAMESPACE
namespace assembly {

/// A batch of this number of the longest samples, or this rank's columns of it, on the meta device.
nn::Batch longest_batch(const DryRunOf& what, const nn::SequenceCut& cut, std::int64_t samples, bool training);
/// Prompts that are to be continued, of `columns` tokens each.
nn::Batch longest_prompts(std::int64_t rows, std::int64_t columns);

}  // namespace assembly
CAPSTAN_END_NAMESPACE
