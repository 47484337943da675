#pragma once

#include <string>
#include <string_view>
#include <vector>

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

}  // namespace hf
