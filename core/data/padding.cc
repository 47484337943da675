#include "data/padding.h"

#include <algorithm>

namespace capstan::data {

std::int64_t padding_id(const tokenizer::Tokenizer& tokenizer, std::int64_t vocab_size) {
  const auto id = tokenizer.pad_id() >= 0 ? tokenizer.pad_id() : tokenizer.end_id();
  return id >= 0 && id < vocab_size ? id : 0;
}

std::int64_t rounded_up(std::int64_t columns, std::int64_t multiple) {
  return (columns + multiple - 1) / multiple * multiple;
}

std::int64_t padded_columns(std::int64_t columns, std::int64_t multiple, std::int64_t positions) {
  return std::min(rounded_up(columns, multiple), positions);
}

}  // namespace capstan::data
