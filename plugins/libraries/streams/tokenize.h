#pragma once
#include <capstan/tokenizer/tokenizer.h>

#include <cstdint>
#include <functional>

#include "stream_writer.h"
#include "texts.h"

namespace streams {

/// What becomes of a text.
struct TokenizeRules {
  bool has_begin = true;  ///< with the ids that the tokenizer puts before a text
  bool has_end = true;    ///< with its end token after it
  int threads = 0;        ///< 0: one for each core
};

/// How far it is.
struct TokenizeProgress {
  std::int64_t documents = 0;
  std::int64_t tokens = 0;
  std::int64_t text_bytes = 0;  ///< of TextReader::total()
};

/// Writes the tokens of all texts, in their order, whatever the number of threads; a few batches of them are in memory.
/// `tell` is called on the calling thread after each batch. Throws the first text's Error, and that of a tokenizer
/// without an end token where the rules ask for one.
void tokenize_all(TextReader& texts, const capstan::tokenizer::Tokenizer& tokenizer, const TokenizeRules& rules,
                  StreamWriter& writer, const std::function<void(const TokenizeProgress&)>& tell);

}  // namespace streams
