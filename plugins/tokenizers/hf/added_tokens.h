#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <string_view>
#include <vector>

#include "characters.h"
#include "tokenizer_spec.h"

namespace hf {

/// Finds added tokens in a text: from left to right, at each place the longest, and of equal ones the first added.
class AddedTokens {
 public:
  AddedTokens();
  /// `pattern`: the text to find, the token's content or its normalized form; never empty.
  void add(const AddedToken& token, std::string_view pattern);

  struct Part {
    std::string_view text;  ///< the text between tokens, or the token's; never empty
    std::int32_t id = -1;   ///< the token found there
  };
  /// The text cut at its tokens, in order. With lstrip and rstrip a token includes the adjacent white space.
  /// `ordinary`: the names of special tokens are text.
  std::vector<Part> cut(const CharacterClasses& classes, std::string_view text, bool ordinary = false) const;

 private:
  struct Node {
    std::map<char, std::size_t> next;
    std::int32_t token = -1;  // index of the token that ends here
  };
  struct Match {
    std::size_t end = 0;
    std::int32_t token = -1;
  };
  Match longest_at(std::string_view text, std::size_t at) const;

  std::vector<AddedToken> tokens_;
  std::vector<Node> nodes_;         // nodes_[0] is the root
  std::array<bool, 256> begins_{};  // some token begins with this byte
};

}  // namespace hf
