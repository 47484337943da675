#pragma once
#include <capstan/base/export.h>

#include <cstdint>
#include <filesystem>
#include <vector>

#include "job/job.h"

CAPSTAN_BEGIN_NAMESPACE
namespace train {

/// Ids that answers of the training data end with: the tokenizer's end token, and a template's end of a turn.
std::vector<std::int64_t> answer_ends(const job::Samples& samples);
/// The same of a run, as its checkpoint or its weights folder keeps them; none where an older Capstan wrote that.
std::vector<std::int64_t> saved_answer_ends(const std::filesystem::path& weights);
/// The section of a checkpoint that keeps them, as JSON.
inline constexpr const char* answer_ends_section = "answer_ends";

}  // namespace train
CAPSTAN_END_NAMESPACE
