#pragma once
#include <capstan/base/export.h>

#include <string>

#include "job/job.h"

CAPSTAN_BEGIN_NAMESPACE
namespace ranks {

/// How many of a split's first 500 samples have no accepted answer in their prompt only because the prompt was cut to
/// data.max_length: such a question teaches to guess. In a line; empty where none has.
std::string cut_answers_text(const job::Job& job, data::Split split);

}  // namespace ranks
CAPSTAN_END_NAMESPACE
