#include <capstan/base/error.h>
#include <capstan/base/text.h>

#include <array>
#include <cstdio>

#include "character_properties.h"
#include "regex.h"

namespace hf {

using namespace capstan;

namespace {

std::string hex_escape(char32_t c) {
  std::array<char, 16> text{};
  std::snprintf(text.data(), text.size(), "\\x{%X}", static_cast<unsigned>(c));
  return text.data();
}

std::string ranges_text(const CharacterRanges& ranges) {
  std::string out;
  for (const auto& range : ranges) {
    out += hex_escape(range.first);
    if (range.last > range.first) out += "-" + hex_escape(range.last);
  }
  return out;
}

// One pass over a pattern, which knows whether it is inside brackets.
class Classes {
 public:
  explicit Classes(std::string_view pattern) : rest_(pattern) {}

  std::string written_out() {
    while (!rest_.empty()) {
      if (rest_.front() == '\\') {
        escape();
      } else if (rest_.front() == '[') {
        open();
      } else {
        if (rest_.front() == ']' && depth_ > 0) --depth_;
        copy(1);
      }
    }
    return std::move(out_);
  }

 private:
  void copy(std::size_t bytes) {
    out_ += rest_.substr(0, bytes);
    rest_.remove_prefix(std::min(bytes, rest_.size()));
  }

  void open() {
    if (depth_ > 0 && rest_.starts_with("[:")) refuse(rest_.substr(0, rest_.find(']')));
    ++depth_;
    copy(rest_.starts_with("[^") ? 2 : 1);
    if (rest_.starts_with(']')) copy(1);  // the first one in brackets is a character
  }

  void escape() {
    const char letter = rest_.size() > 1 ? rest_[1] : '\0';
    const bool negated = letter >= 'A' && letter <= 'Z';
    switch (letter) {
      case 'p':
      case 'P':
        return property(negated);
      case 'd':
      case 'D':
        return put(characters_with("Nd").value(), negated);
      case 'w':
      case 'W':
        return put(pattern_word_characters(), negated);
      case 'b':
      case 'B':
        return depth_ == 0 ? boundary(negated) : copy(2);
      case 'X':
      case 'y':
      case 'Y':
        refuse(rest_.substr(0, 2));
      default:
        copy(2);
    }
  }

  // \p{Name} or \p{^Name}.
  void property(bool negated) {
    const auto end = rest_.find('}');
    if (rest_.size() < 4 || rest_[2] != '{' || end == std::string_view::npos) refuse(rest_.substr(0, 3));
    auto name = rest_.substr(3, end - 3);
    const bool caret = name.starts_with('^');
    if (caret) name.remove_prefix(1);
    const auto characters = characters_with(name);
    if (!characters) refuse(rest_.substr(0, end + 1));
    put(*characters, negated != caret, end + 1);
  }

  void put(const CharacterRanges& characters, bool negated, std::size_t bytes = 2) {
    const auto text = ranges_text(negated ? all_but(characters) : characters);
    out_ += depth_ > 0 ? text : cat("[", text, "]");
    rest_.remove_prefix(bytes);
  }

  void boundary(bool negated) {
    const auto word = cat("[", ranges_text(pattern_word_characters()), "]");
    out_ += negated ? cat("(?:(?<=", word, ")(?=", word, ")|(?<!", word, ")(?!", word, "))")
                    : cat("(?:(?<=", word, ")(?!", word, ")|(?<!", word, ")(?=", word, "))");
    rest_.remove_prefix(2);
  }

  [[noreturn]] static void refuse(std::string_view part) {
    throw Error(cat(part,
                    " is not supported in a pattern (supported: \\p{…} of general categories and of Han, \\s, \\d, ",
                    "\\w, \\b)"));
  }

  std::string_view rest_;
  std::string out_;
  int depth_ = 0;  // open brackets
};

}  // namespace

std::string with_own_classes(std::string_view pattern) { return Classes(pattern).written_out(); }

}  // namespace hf
