#pragma once
#include "rows.h"

#include <capstan/data/source.h>

#include <cstdint>
#include <string>
#include <vector>

namespace jsonl {

/// What a line has under these keys: a list of numbers, one for each of its `sequences`, or a number where it has one
/// sequence. Throws Error at "FILE:LINE" for anything else, and under a key that is named after log-probabilities
/// ("…log_prob…", "…logp…") for a number above 0.
std::vector<capstan::data::FieldValues> read_numbers(const Rows& file, std::int64_t index,
                                                     const std::vector<std::string>& keys, std::int64_t sequences);

}  // namespace jsonl
