#include "template.h"

#include <capstan/base/error.h>
#include <capstan/base/text.h>

#include <algorithm>

namespace jsonl {
namespace {

std::string with_role(std::string text, const std::string& role) {
  constexpr std::string_view mark = "{role}";
  for (auto at = text.find(mark); at != std::string::npos; at = text.find(mark, at + role.size()))
    text.replace(at, mark.size(), role);
  return text;
}

}  // namespace

Turns::Parts Turns::parts(const Message& message) const {
  const auto& own = message.role == "system" ? system : message.role == "user" ? user : assistant;
  const bool is_known = message.role == "system" || message.role == "user" || message.role == "assistant";
  const auto& text = is_known && own ? *own : any;
  if (text.empty()) {
    throw capstan::Error(capstan::cat("there is no template for the role '", message.role, "'"),
                         is_known ? capstan::cat("set data.", message.role, "_turn, or data.turn for every role")
                                  : "set data.turn, which is for every role");
  }
  constexpr std::string_view mark = "{content}";
  const auto at = text.find(mark);
  return {with_role(text.substr(0, at), message.role),
          message.content + with_role(text.substr(at + mark.size()), message.role)};
}

std::string Turns::assistant_end() const {
  if ((assistant ? *assistant : any).empty()) return {};
  return parts({"assistant", ""}).after;
}

TurnEnd turn_end(const std::string& written, const capstan::tokenizer::Tokenizer& tokenizer) {
  const auto marks = capstan::trim(written);
  if (marks.empty()) return {written.find('\n') == std::string::npos ? std::string() : written, {}};
  const auto ids = tokenizer.encode(marks);
  // A special token. Twice, since the first piece of a text may lose a space, which may be all that it has.
  const auto silent = std::find_if(ids.begin(), ids.end(), [&](std::int64_t id) {
    return tokenizer.decode({id, id}).empty();
  });
  // As the tokenizer decodes it, which may differ.
  TurnEnd end{capstan::trim(tokenizer.decode({ids.begin(), silent})), {}};
  if (silent != ids.end()) end.ids.push_back(*silent);
  return end;
}

}  // namespace jsonl
