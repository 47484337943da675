#pragma once
#include "line.h"
#include "record.h"

#include <cstdint>
#include <vector>

namespace jsonl {

/// Fills a record with a line's messages as the model's own template writes them; before they are rendered, only with
/// the conversation that is to be. `answer`: as Renderings::get() has it.
void add_rendering(const Line& line, const std::vector<Message>& messages, const Turns& turns, Record& record,
                   std::int64_t answer = 0);

/// The messages of an answer after those of its prompt, whose turns of the assistant's are not learned.
std::vector<Message> after_prompt(std::vector<Message> prompt, const std::vector<Message>& answer);

}  // namespace jsonl
