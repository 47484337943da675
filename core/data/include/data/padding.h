#pragma once
#include <capstan/base/export.h>
#include <capstan/tokenizer/tokenizer.h>

#include <cstdint>
#include <optional>

CAPSTAN_BEGIN_NAMESPACE
namespace data {

/// What rows are filled up with, and to how many columns.
struct Padding {
  std::int64_t pad_id = 0;
  std::int64_t multiple = 1;                                ///< cols is rounded up to a multiple of it
  std::int64_t least = 1;                                   ///< cols is at least this, but for a fixed length
  std::optional<std::int64_t> fixed_length = std::nullopt;  ///< cols whatever the samples; `multiple` is then not used
};

/// The id that pads rows: the tokenizer's pad id, else its end id, else 0. It is also 0 where that id is not among the
/// model's vocab_size ids. Its positions never bear loss.
std::int64_t padding_id(const tokenizer::Tokenizer& tokenizer, std::int64_t vocab_size);

/// `columns` rounded up to a multiple.
std::int64_t rounded_up(std::int64_t columns, std::int64_t multiple);
/// The same, but not beyond the model's `positions`.
std::int64_t padded_columns(std::int64_t columns, std::int64_t multiple, std::int64_t positions);

}  // namespace data
CAPSTAN_END_NAMESPACE
