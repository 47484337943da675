#pragma once
#include <capstan/base/export.h>

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

CAPSTAN_BEGIN_NAMESPACE
namespace tokenizer {

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
  enum class Kind { prepend, replace };
  Kind kind = Kind::prepend;
  std::string pattern;  ///< replace: what is replaced, never empty
  std::string content;  ///< what is put there
};

/// Patterns: each match is a piece, and so is the text between matches; core/tokenizer/split.h has them.
enum class SplitPattern { gpt2, llama3, bloom };

struct PreStep {
  enum class Kind { split, metaspace, byte_level };
  enum class Prepend { never, first, always };
  Kind kind = Kind::split;
  SplitPattern pattern = SplitPattern::gpt2;  ///< split
  std::string replacement;                    ///< metaspace: what replaces a space
  Prepend prepend = Prepend::never;           ///< metaspace: before which pieces one is put
  bool cut = false;                           ///< metaspace: a piece begins at each; byte_level: at GPT-2's pattern
  bool prefix_space = false;                  ///< byte_level: a space before a piece without one
};

struct DecodeStep {
  enum class Kind { byte_level, replace, byte_fallback, fuse, strip };
  Kind kind = Kind::byte_level;
  std::string pattern;  ///< replace: never empty; strip: one character
  std::string content;  ///< replace
  std::int64_t start = 0;
  std::int64_t stop = 0;  ///< strip: how many at either end, at most
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

}  // namespace tokenizer
CAPSTAN_END_NAMESPACE
