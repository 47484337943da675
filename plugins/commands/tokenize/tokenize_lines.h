#pragma once
#include <capstan/tokenizer/tokenizer.h>

#include <iosfwd>

namespace tokenize {

/// Reads JSON lines {"text": …} and writes {"ids": […], "decoded": …} for each; `special`: with the ids that the
/// tokenizer puts around a text. Throws Error that names the line for one that is no such object.
void tokenize_lines(const capstan::tokenizer::Tokenizer& tokenizer, bool special, std::istream& in, std::ostream& out);

}  // namespace tokenize
