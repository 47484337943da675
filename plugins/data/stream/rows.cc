#include "rows.h"

#include <capstan/base/text.h>

#include <algorithm>

namespace stream {

using namespace capstan;

std::int64_t RowSource::held() const {
  if (rules_.planned) return rules_.planned->size();
  const auto step = rules_.most - 1;
  return (stream_->size() - 1 + step - 1) / step;
}

std::vector<streams::Piece> RowSource::pieces(std::int64_t index) const {
  if (rules_.planned) return rules_.planned->row(index);
  const auto begin = index * (rules_.most - 1);
  return {{begin, std::min(rules_.most, stream_->size() - begin)}};
}

data::Sample RowSource::get(std::int64_t index) const {
  CAPSTAN_ASSERT(index >= 0 && index < size());
  data::Sample sample;
  sample.id = cat("row ", index);
  sample.tokens.reserve(static_cast<std::size_t>(rules_.most));
  std::vector<std::int64_t> begins, joints;  // a piece may begin with a token that was predicted in another row
  for (const auto& piece : pieces(index)) {
    if (!sample.tokens.empty()) {
      joints.push_back(static_cast<std::int64_t>(sample.tokens.size()));
      begins.push_back(joints.back());
    }
    stream_->read(piece.begin, piece.length, sample.tokens, begins);
  }
  sample.is_target.assign(sample.tokens.size(), true);
  sample.is_target.front() = false;
  for (const auto joint : joints) sample.is_target[static_cast<std::size_t>(joint)] = false;
  if (!rules_.apart) return sample;
  for (const auto begin : begins) sample.is_target[static_cast<std::size_t>(begin)] = false;
  sample.begins = std::move(begins);
  return sample;
}

}  // namespace stream
