#include "conversation.h"

#include <string_view>
#include <utility>

#include "records/template.h"

namespace asking {

using capstan::Json;

Json message(const std::string& role, const std::string& content) { return {{"role", role}, {"content", content}}; }

void put_system(Json& messages, const std::string& system) {
  if (system.empty() || (!messages.empty() && messages.front().value("role", "") == "system")) return;
  auto all = Json::array({message("system", system)});
  for (const auto& one : messages) all.push_back(one);
  messages = std::move(all);
}

capstan::execution::AnswerEnd answer_end(const std::string& turn_end, const capstan::tokenizer::Tokenizer& tokenizer) {
  const auto end = jsonl::turn_end(turn_end, tokenizer);
  capstan::execution::AnswerEnd found{{}, end.ids};
  if (!end.text.empty()) found.text = [end](std::string_view text) { return end.find(text); };
  return found;
}

}  // namespace asking
