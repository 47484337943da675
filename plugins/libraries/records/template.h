#pragma once
#include <capstan/base/json.h>
#include <capstan/tokenizer/tokenizer.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace jsonl {

class Renderings;

/// A message of a conversation.
struct Message {
  std::string role;
  std::string content;
  bool is_learned = true;   ///< false: it bears no loss, though it is the assistant's
  capstan::Json json = {};  ///< all of it, as the model's own template takes it; null where there are turns
};

/// How turns of a conversation are written: a text with {content}, and maybe {role}, for every role or for one of its
/// own. "<|im_start|>{role}\n{content}<|im_end|>\n" is ChatML's.
struct Turns {
  std::string any;  ///< empty: a role needs one of its own
  std::optional<std::string> system;
  std::optional<std::string> user;
  std::optional<std::string> assistant;
  bool by_model = false;  ///< the model's own template writes conversations, and there are no texts
  std::shared_ptr<const Renderings> renderings = {};  ///< what it has written; null: it has not yet

  bool empty() const { return !by_model && any.empty() && !system && !user && !assistant; }
  /// The text before a message's content, and the text from the content on. Throws Error, without a place, for a role
  /// without a template.
  struct Parts {
    std::string before;
    std::string after;
  };
  Parts parts(const Message& message) const;
  /// The text after the assistant's content; empty, too, if there is no template for the assistant.
  std::string assistant_end() const;
};

/// The end of the assistant's turn: a text in the generated answer, or an id without text. Either may be
/// missing.
struct TurnEnd {
  std::string text;
  std::vector<std::int64_t> ids;

  /// Where it begins in a generated text, or npos.
  std::size_t find(std::string_view answer) const { return text.empty() ? answer.npos : answer.find(text); }
};

/// Finds it in the template's text after the assistant's message. White space around it is ignored; nothing but white
/// space ends a turn only if it has a line break, since any answer may contain a space.
TurnEnd turn_end(const std::string& written, const capstan::tokenizer::Tokenizer& tokenizer);

}  // namespace jsonl
