#pragma once
#include "conversations.h"
#include "rows.h"

#include <capstan/data/source.h>

#include "tokens/ends.h"

namespace jsonl {

/// Warns, at the first line that shows it, of begin and end tokens that stand twice, and of an end token that is
/// missing.
void warn_of_ends(const capstan::data::DataSource& source, const Rows& file,
                  const capstan::tokenizer::Tokenizer& tokenizer, const Conversations& conversations,
                  tokens::EndWarnings& warnings);

}  // namespace jsonl
