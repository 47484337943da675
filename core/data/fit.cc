#include "data/fit.h"

#include <capstan/base/text.h>

namespace capstan::data {

void check_fit(const ModelBounds& model, const tokenizer::Tokenizer* tokenizer, std::int64_t max_length,
               const std::string& where_tokenizer, const std::string& where_max_length, Diagnostics& diagnostics) {
  if (tokenizer && tokenizer->vocab_size() > model.vocab_size) {
    diagnostics.add(where_tokenizer,
                    cat("the tokenizer '", tokenizer->name(), "' has ", thousands(tokenizer->vocab_size()),
                        " ids, the model's vocab_size is ", thousands(model.vocab_size)),
                    cat("set the model's vocab_size to at least ", tokenizer->vocab_size(),
                        ", or name the tokenizer that the model was made for"));
  }
  if (max_length > model.positions + 1) {
    diagnostics.add(where_max_length,
                    cat("max_length ", thousands(max_length), " is more than the model's ", thousands(model.positions),
                        " positions"),
                    cat("use max_length = ", model.positions, " or less, or a model with more positions"));
  }
}

std::int64_t sample_length(const ModelBounds& model, std::int64_t max_length) {
  return max_length > 0 ? max_length : model.positions;
}

void check_sample(const ModelBounds& model, const Sample& sample) {
  for (const auto& sequence : sequences_of(sample)) {
    const auto tokens = static_cast<std::int64_t>(sequence.tokens.size());
    if (tokens - 1 > model.positions) {
      throw Error(cat("sample '", sample.id, "' has ", thousands(tokens), " tokens, the model has ",
                      thousands(model.positions), " positions"),
                  cat("use data.max_length = ", model.positions, " or less"));
    }
    for (std::size_t t = 0; t < sequence.tokens.size(); ++t) {
      if (sequence.tokens[t] >= 0 && sequence.tokens[t] < model.vocab_size) continue;
      throw Error(cat("token ", t, " of sample '", sample.id, "' is ", sequence.tokens[t],
                      ", the model's vocab_size is ", model.vocab_size),
                  "use the tokenizer that the model was made for, or a larger vocab_size");
    }
  }
}

}  // namespace capstan::data
