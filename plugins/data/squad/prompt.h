#pragma once
#include "squad_file.h"

#include <capstan/data/source.h>

#include <cstdint>
#include <string>

namespace squad {

/// Which tokens bear loss.
enum class Loss {
  answer,    ///< the answer and the end token
  sequence,  ///< every token, as a language model is trained
};

/// "Question: {question} Context: {context} Answer:": the start of generation. An answer follows after a space.
std::string prompt_text(const std::string& question, const std::string& context);

/// Tokens of the shortest sample that can be made of a question: without any context.
std::int64_t least_tokens(const Question& question, const capstan::tokenizer::Tokenizer& tokenizer);

/// A question as the model sees it: the prompt, " " and the first answer, the end token (if the tokenizer has one).
///
/// The joined text is tokenised at once, so that tokens are the same as in running text; the answer begins at the
/// first token that differs from the prompt's own tokens. If it has more than `max_length` tokens the context is cut at
/// its end, between two characters; question and answer are never cut. Throws Error that names the
/// question when even an empty context is too long.
capstan::data::Sample make_sample(const Question& question, const std::string& context,
                                  const capstan::tokenizer::Tokenizer& tokenizer, std::int64_t max_length, Loss loss);

/// Only the prompt of a question, for generation. It has at most `most` tokens and is cut like a sample's, but does not
/// depend on the answers, whose length would otherwise show in the prompt's. Throws Error that names the question when
/// even an empty context is too long.
capstan::data::Sample make_prompt(const Question& question, const std::string& context,
                                  const capstan::tokenizer::Tokenizer& tokenizer, std::int64_t most);

}  // namespace squad
