#pragma once
#include <capstan/tokenizer/tokenizer.h>

#include <string>
#include <vector>

#include "streams/tokenize.h"

namespace tokenize {

/// Files of text that become one pair of files of tokens.
struct StreamJob {
  std::vector<std::string> files;
  std::string out;                ///< "corpus": corpus.bin and corpus.idx
  streams::TextInput input = {};  ///< all but its path
  streams::TokenizeRules rules = {};
};

/// Writes the pair, which is there when it is whole, and prints how far it is and what it wrote. Throws Error for a
/// pair that is there already.
void to_stream(const capstan::tokenizer::Tokenizer& tokenizer, const StreamJob& job);

}  // namespace tokenize
