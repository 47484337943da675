#pragma once
#include <string>

#include "json_part.h"
#include "tokenizer_spec.h"

namespace hf {

/// What helps where a file holds something that is not supported.
extern const char* const what_is_supported;

/// The type that a part names, or "" if it names none.
std::string type_of(const JsonPart& part);
/// The part's type is none of `known`.
void refuse_type(const JsonPart& part, const std::string& known);

// Read the steps around the model in order, each added after those that `spec` has.
void read_normalizer(const JsonPart& part, TokenizerSpec& spec);
void read_pre_tokenizer(const JsonPart& part, TokenizerSpec& spec);
void read_post_processor(const JsonPart& part, TokenizerSpec& spec);
void read_decoder(const JsonPart& part, TokenizerSpec& spec);

}  // namespace hf
