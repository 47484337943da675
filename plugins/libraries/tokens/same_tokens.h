#pragma once
#include <string>

namespace tokens {

/// Where the tokens of two models' folders differ, by what their tokenizer.json say: "id 7 is 'a' in X and 'b' in Y".
/// "" where they don't, and where it cannot be said: one of the two has no such file, or is "". Throws capstan::Error
/// for a file that is no JSON.
std::string difference(const std::string& folder, const std::string& other);

}  // namespace tokens
