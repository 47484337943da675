#include "text_pattern.h"

#include <capstan/base/error.h>
#include <capstan/base/text.h>

#include <algorithm>

namespace hf {

using namespace capstan;

namespace {

struct Stretch {
  ByteRange span;
  bool is_match = false;
};

// The whole text as matches and what is between them.
std::vector<Stretch> stretches_of(std::string_view text, const std::vector<ByteRange>& matches, bool invert) {
  std::vector<Stretch> out;
  std::size_t done = 0;
  for (const auto& match : matches) {
    if (done < match.begin) out.push_back({{done, match.begin}, invert});
    out.push_back({match, !invert});
    done = match.end;
  }
  if (done < text.size()) out.push_back({{done, text.size()}, invert});
  return out;
}

// Joins a stretch with the previous one where `joins(previous is a match, this is a match)`; before the first one there
// is no match.
template <class Joins>
std::vector<Stretch> joined_where(const std::vector<Stretch>& stretches, const Joins& joins) {
  std::vector<Stretch> out;
  bool previous = false;
  for (const auto& stretch : stretches) {
    if (joins(previous, stretch.is_match) && !out.empty()) {
      out.back().span.begin = std::min(out.back().span.begin, stretch.span.begin);
      out.back().span.end = std::max(out.back().span.end, stretch.span.end);
    } else {
      out.push_back(stretch);
    }
    previous = stretch.is_match;
  }
  return out;
}

std::vector<Stretch> after(Behavior behavior, std::vector<Stretch> stretches) {
  const auto first_of_matches = [](bool previous, bool is_match) { return is_match && !previous; };
  switch (behavior) {
    case Behavior::isolated:
      break;
    case Behavior::removed:
      std::erase_if(stretches, [](const auto& stretch) { return stretch.is_match; });
      break;
    case Behavior::merged_with_previous:
      return joined_where(stretches, first_of_matches);
    case Behavior::merged_with_next:
      std::reverse(stretches.begin(), stretches.end());
      stretches = joined_where(stretches, first_of_matches);
      std::reverse(stretches.begin(), stretches.end());
      break;
    case Behavior::contiguous:
      return joined_where(stretches, [](bool previous, bool is_match) { return previous == is_match; });
  }
  return stretches;
}

}  // namespace

std::vector<ByteRange> TextPattern::matches(std::string_view text) const {
  if (regex_) return regex_->matches(text);
  std::vector<ByteRange> out;
  if (text_.empty()) return out;
  for (auto at = text.find(text_); at != std::string_view::npos; at = text.find(text_, at + text_.size()))
    out.push_back({at, at + text_.size()});
  return out;
}

std::string TextPattern::replaced(std::string_view text, std::string_view content) const {
  const auto most = (std::size_t{16} << 20) + 100 * text.size();
  std::string out;
  std::size_t done = 0;
  for (const auto& match : matches(text)) {
    if (out.size() + content.size() > most) {
      throw Error(cat("a text of ", text.size(), " bytes becomes more than ", most, " where matches are replaced"),
                  "take a tokenizer.json that is as it was published, or write a tokenizer plugin");
    }
    out += text.substr(done, match.begin - done);
    out += content;
    done = match.end;
  }
  out += text.substr(done);
  return out;
}

std::vector<std::string_view> pieces_at(std::string_view text, const std::vector<ByteRange>& matches, Behavior behavior,
                                        bool invert) {
  std::vector<std::string_view> out;
  for (const auto& [span, is_match] : after(behavior, stretches_of(text, matches, invert))) {
    if (span.begin < span.end) out.push_back(text.substr(span.begin, span.end - span.begin));
  }
  return out;
}

}  // namespace hf
