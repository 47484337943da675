#pragma once
#include <capstan/execution/evaluation.h>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>

namespace chat {

/// How much of a text that is still generated stays as it is: without a character whose bytes are not all there yet,
/// and without what may be the beginning of `end`.
std::size_t settled(std::string_view text, std::string_view end);

/// An answer that is shown while it is generated.
class GrowingAnswer {
 public:
  /// `end`: what ends it, and as a text `end_text`, no beginning of which is shown. `show` gets each piece as it comes;
  /// null: nothing is shown. `is_stopped`: whether it ends here, since a person wants that.
  GrowingAnswer(capstan::execution::AnswerEnd end, std::string end_text, std::function<void(std::string_view)> show,
                std::function<bool()> is_stopped);
  GrowingAnswer(const GrowingAnswer&) = delete;
  GrowingAnswer& operator=(const GrowingAnswer&) = delete;

  /// For one call of ModelSession::generate(); this object must outlive it.
  capstan::execution::AnswerEnd end();
  /// Shows the rest of an answer that is whole.
  void finish() { show(text_.size()); }

  const std::string& text() const { return text_; }
  /// How many it has, on a rank that computes it.
  std::int64_t tokens() const { return looks_ > 0 ? looks_ - 1 : 0; }  // the last look is at all of it
  bool is_stopped() const { return is_stopped_; }

 private:
  std::size_t look(std::string_view text);
  void show(std::size_t most);

  capstan::execution::AnswerEnd end_;
  std::string end_text_;
  std::function<void(std::string_view)> show_;
  std::function<bool()> asks_stop_;
  std::string text_;
  std::size_t shown_ = 0;
  std::int64_t looks_ = 0;
  bool is_stopped_ = false;
};

}  // namespace chat
