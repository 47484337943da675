#pragma once
#include <capstan/data/source.h>
#include <capstan/tokenizer/tokenizer.h>

#include <string>
#include <vector>

namespace looking {

/// A part of a sequence's text; what bears no loss is printed dimmed on a terminal, else in ⟦ ⟧.
struct SamplePart {
  std::string text;
  bool bears_loss = false;
};
/// A sequence as the model sees it. Ids that have no text, such as an end token's, stand as [id 2].
std::vector<SamplePart> sequence_parts(const capstan::data::SequenceView& sample,
                                       const capstan::tokenizer::Tokenizer& tokenizer);

}  // namespace looking
