#pragma once
#include <capstan/base/json.h>

#include <iosfwd>
#include <string>
#include <vector>

namespace generate {

/// A prompt of the input, and what of its line goes to the output.
struct PromptLine {
  std::string text;            ///< what the model continues; of a conversation, once the template has written it
  std::string id;              ///< JSON; empty: the line has none
  capstan::Json conversation;  ///< {"messages", "tools"?, …} that the template writes; null: it is none
};

/// Prompts from a stream, one a line; with `json` each line is {"prompt": ..., "id": ...} or {"messages": [...], ...}.
/// Throws Error that names the line.
std::vector<PromptLine> read_prompts(std::istream& in, bool json);

/// What is printed of a JSON line and its answer.
capstan::Json answered_line(const PromptLine& line, const std::string& answer);

}  // namespace generate
