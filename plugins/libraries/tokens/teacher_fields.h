#pragma once
#include <capstan/base/text.h>

#include <cstdint>
#include <string>

namespace tokens {

/// The fields of a token in which data keep what a teacher says of it: its n-th likeliest word (int64), n from 1, and
/// the logarithm of that word's probability (float32).
inline std::string teacher_word(std::int64_t n) { return capstan::cat("teacher_word_", n); }
inline std::string teacher_log_probability(std::int64_t n) { return capstan::cat("teacher_log_probability_", n); }

}  // namespace tokens
