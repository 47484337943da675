#pragma once
#include "record.h"

#include <cstdint>
#include <string>

namespace jsonl {

/// Whether a line's completion is wanted, as its "label" says: true or false, 1 or 0. Throws Error at "FILE:LINE" for a
/// line of another form than a prompt with its completion, and for one without such a label.
bool read_label(const Rows& file, std::int64_t index, const Record& record);

/// What a record has before its answer.
std::string prompt_of(const Record& record);

}  // namespace jsonl
