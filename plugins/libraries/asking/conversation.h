#pragma once
#include <capstan/base/json.h>
#include <capstan/execution/evaluation.h>
#include <capstan/tokenizer/tokenizer.h>

#include <string>

namespace asking {

/// {"role": …, "content": …}
capstan::Json message(const std::string& role, const std::string& content);
/// Puts the system's message before messages that do not begin with one; nothing where the text is empty.
void put_system(capstan::Json& messages, const std::string& system);

/// What ends an answer, by the text with which a template ends the assistant's turn.
capstan::execution::AnswerEnd answer_end(const std::string& turn_end, const capstan::tokenizer::Tokenizer& tokenizer);

}  // namespace asking
