#pragma once
#include <capstan/base/json.h>

#include <cstdint>
#include <functional>
#include <istream>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace chat {

/// What a dialogue knows of the model.
struct Model {
  std::function<std::string(const capstan::Json& conversation)> write;  ///< the text that the next answer continues
  std::function<std::int64_t(const std::string& text)> count;           ///< its tokens
  std::int64_t positions = 0;
  std::int64_t max_new_tokens = 0;  ///< of an answer
};

/// Where a dialogue's lines come from, and where it writes.
struct Console {
  std::istream& in;
  bool is_terminal = false;                    ///< a person types: a mark shows where
  std::function<void(std::string_view)> show;  ///< that mark
  std::function<void(std::string_view)> say;   ///< what is no part of the conversation, in lines
};

/// A conversation that a person has with a model, on the rank that reads. It does not generate.
class Dialogue {
 public:
  Dialogue(Model model, Console console, std::string system);

  /// Reads until there is a question, and obeys the commands before it. Returns the text that its answer continues;
  /// nothing when the lines have ended. Where the conversation leaves too little room in the model's positions, its
  /// oldest questions and answers are left out, which is said. A question that cannot be asked is said and forgotten.
  std::optional<std::string> next();
  /// The answer to the last question.
  void add_answer(const std::string& text);

  const std::vector<capstan::Json>& messages() const { return messages_; }

 private:
  std::optional<std::string> read() const;
  bool obey(const std::string& line);
  std::string written(const std::vector<capstan::Json>& messages) const;
  std::string fitted();

  Model model_;
  Console console_;
  std::string system_;
  std::vector<capstan::Json> messages_;  // without the system's
};

}  // namespace chat
