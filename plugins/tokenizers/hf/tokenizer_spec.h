#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "text_pattern.h"

namespace hf {

/// A token that is found in the text before the model sees it.
struct AddedToken {
  std::string content;
  std::int32_t id = 0;
  bool single_word = false;  ///< not next to a word character
  bool lstrip = false;       ///< takes the white space before it
  bool rstrip = false;       ///< and after it
  bool normalized = false;   ///< found in the normalized text
  bool special = false;      ///< gives no text when decoded
};

struct NormalizeStep {
  enum class Kind { prepend, replace, nfc, nfd, nfkc, nfkd, lowercase, strip, strip_accents };
  Kind kind = Kind::prepend;
  TextPattern pattern = {};  ///< replace: what is replaced
  std::string content = {};  ///< replace and prepend: what is put there
  bool left = false;         ///< strip: at the beginning
  bool right = false;        ///< and at the end
};

/// Patterns that are matched without a regular expression; split.h has them.
enum class SplitPattern { gpt2, llama3, qwen2, bloom };

struct PreStep {
  enum class Kind { known_split, split, metaspace, byte_level };
  enum class Prepend { never, first, always };
  Kind kind = Kind::split;
  SplitPattern known = SplitPattern::gpt2;                               ///< known_split
  std::function<std::vector<ByteRange>(std::string_view)> matches = {};  ///< split: what the text is cut at
  Behavior behavior = Behavior::isolated;                                ///< split
  bool invert = false;                                                   ///< split
  std::string replacement = {};                                          ///< metaspace: what replaces a space
  Prepend prepend = Prepend::never;                                      ///< metaspace: before which pieces one is put
  bool cut = false;           ///< metaspace: a piece begins at each; byte_level: at GPT-2's pattern
  bool prefix_space = false;  ///< byte_level: a space before a piece without one
};

struct DecodeStep {
  enum class Kind { byte_level, replace, byte_fallback, fuse, strip, metaspace };
  Kind kind = Kind::byte_level;
  TextPattern pattern = {};    ///< replace
  std::string character = {};  ///< strip and metaspace
  std::string content = {};    ///< replace
  std::int64_t start = 0;
  std::int64_t stop = 0;     ///< strip: how many at either end, at most
  bool drops_first = false;  ///< metaspace: those of the first token give no space
};

struct BpeSpec {
  std::vector<std::pair<std::string, std::int32_t>> vocabulary;
  std::vector<std::pair<std::string, std::string>> merges;  ///< the first is done first
  std::string unknown;                                      ///< token for what is not in the vocabulary; "" = none
  bool fuse_unknown = false;
  bool byte_fallback = false;
  bool ignore_merges = false;
};

/// A tokenizer.json of which Capstan supports every part.
struct TokenizerSpec {
  BpeSpec model;
  std::vector<AddedToken> added;  ///< special ones first: the order in which equal ones win
  std::vector<NormalizeStep> normalizer;
  std::vector<PreStep> pre_tokenizer;
  std::vector<DecodeStep> decoder;
  std::vector<std::int64_t> prefix;  ///< ids that the template puts before a text
  std::vector<std::int64_t> suffix;  ///< and after it
};

}  // namespace hf
