#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "origins.h"
#include "tokenizer_spec.h"

namespace hf {

/// Well-formed UTF-8 after a file's normalizer steps.
///   prepend                `content` before a text that is not empty
///   replace                each match of `pattern`
///   nfc, nfd, nfkc, nfkd   Unicode's normal forms for the characters that the `tokenizers` package knows
///   lowercase              each character by itself
///   strip                  no white space at the ends
///   strip_accents          no combining marks
std::string normalized(const std::vector<NormalizeStep>& steps, std::string_view text);

/// The same with the origins of each byte, where `from` has those of the text's; null: without. A character that a step
/// changes by itself is followed exactly. Where a normal form joins, splits or reorders some that follow each other,
/// each byte of what they become stands for all of them.
Traced traced_normalized(const std::vector<NormalizeStep>& steps, std::string_view text,
                         const capstan::tokenizer::TextRange* from);

}  // namespace hf
