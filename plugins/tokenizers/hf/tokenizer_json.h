#pragma once

#include <string>

#include "tokenizer_spec.h"

namespace hf {

/// Parses a tokenizer.json's `text`. Throws Error at `file` naming everything in it that Capstan does not support, so
/// that an accepted file gives the same ids as the `tokenizers` package.
TokenizerSpec parse_tokenizer(const std::string& text, const std::string& file);

}  // namespace hf
