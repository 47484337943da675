#include "growing_answer.h"

#include <algorithm>
#include <utility>

namespace chat {

std::size_t settled(std::string_view text, std::string_view end) {
  constexpr std::string_view replacement = "\xEF\xBF\xBD";
  constexpr int most = 3;  // bytes of a character that is not whole, each of which may stand for itself
  auto size = text.size();
  for (int i = 0; i < most && text.substr(0, size).ends_with(replacement); ++i) size -= replacement.size();
  for (auto part = std::min(size, end.size()); part > 0; --part) {
    if (text.substr(0, size).ends_with(end.substr(0, part))) return size - part;
  }
  return size;
}

GrowingAnswer::GrowingAnswer(capstan::execution::AnswerEnd end, std::string end_text,
                             std::function<void(std::string_view)> show, std::function<bool()> is_stopped)
    : end_(std::move(end)), end_text_(std::move(end_text)), show_(std::move(show)), asks_stop_(std::move(is_stopped)) {}

capstan::execution::AnswerEnd GrowingAnswer::end() {
  return {[this](std::string_view text) { return look(text); }, end_.ids};
}

std::size_t GrowingAnswer::look(std::string_view text) {
  ++looks_;
  const auto at = end_.text ? end_.text(text) : text.npos;
  text_ = text.substr(0, at);
  if (at != text.npos) return at;
  is_stopped_ = is_stopped_ || asks_stop_();
  if (is_stopped_) return text.size();
  show(settled(text, end_text_));
  return text.npos;
}

void GrowingAnswer::show(std::size_t most) {
  if (!show_ || most <= shown_) return;
  show_(std::string_view(text_).substr(shown_, most - shown_));
  shown_ = most;
}

}  // namespace chat
