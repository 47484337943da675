#pragma once
#include <iosfwd>
#include <string>
#include <vector>

namespace generate {

/// A prompt of the input, and what of its line goes to the output.
struct PromptLine {
  std::string text;
  std::string id;  ///< JSON; empty: the line has none
};

/// Prompts from a stream, one a line; with `json` each line is {"prompt": ..., "id": ...}. Throws Error that names the
/// line.
std::vector<PromptLine> read_prompts(std::istream& in, bool json);

}  // namespace generate
