#pragma once
#include <capstan/base/text.h>

#include <exception>
#include <set>
#include <string>
#include <type_traits>

namespace capstan::testing {

/// Lines that say what an object does otherwise than its interface promises, each once.
class Breaches {
 public:
  template <class... Words>
  void unless(bool holds, const Words&... words) {
    if (!holds && said_.insert(cat(words...)).second) text_ += cat(words..., "\n");
  }
  /// What this returns; a default value, and a line, where it throws.
  template <class Call>
  auto result(const std::string& call, Call&& run) -> std::decay_t<decltype(run())> {
    using Result = std::decay_t<decltype(run())>;
    try {
      return run();
    } catch (const std::exception& error) {
      unless(false, call, " throws: ", error.what());
    }
    if constexpr (!std::is_void_v<Result>) return {};
  }
  const std::string& text() const { return text_; }

 private:
  std::string text_;
  std::set<std::string> said_;
};

}  // namespace capstan::testing
