#pragma once
#include "rows.h"

#include <capstan/data/source.h>

#include <cstdint>
#include <string>
#include <vector>

namespace jsonl {

/// How far above 0 the logarithm of a probability may lie, for numbers in 16 bits.
inline constexpr float rounding = 1e-3F;

/// What a teacher says of a token: its likeliest words, and the logarithms of their probabilities.
struct TeacherRow {
  std::vector<std::int64_t> words;
  std::vector<float> log_probabilities;
};

/// What a line has under "teacher_words" and "teacher_log_probabilities": a list of `words` numbers for each token that
/// bears loss. Throws Error at "FILE:LINE" for anything else, such as a word twice or probabilities of more than 1.
std::vector<TeacherRow> read_teacher(const Rows& file, std::int64_t index, std::int64_t words);

/// The fields that hold them: of each word the field of its id, then that of its logarithm.
std::vector<capstan::data::FieldSpec> teacher_fields(std::int64_t words);

/// The values of these fields, one for each of the sample's tokens; 0 where a token bears no loss. The first token of
/// a sample is not predicted, so it has no row. Throws Error at `where` for another number of rows, and for an id that
/// the model does not have.
std::vector<capstan::data::FieldValues> teacher_values(const std::vector<TeacherRow>& rows,
                                                       const capstan::data::Sample& sample, std::int64_t words,
                                                       std::int64_t vocab_size, const std::string& where);

}  // namespace jsonl
