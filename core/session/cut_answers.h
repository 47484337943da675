#pragma once
#include <capstan/data/source.h>

#include <string>

#include "job/job.h"

namespace capstan::session {

/// See Door::cut_answers.
std::string cut_answers_text(const job::Job& job, data::Split split);

}  // namespace capstan::session
