#pragma once
#include <capstan/tokenizer/tokenizer.h>

#include <cstdint>
#include <string>
#include <unordered_map>
#include <vector>

#include "added_tokens.h"
#include "bpe.h"
#include "characters.h"
#include "tokenizer_spec.h"

namespace hf {

/// Ids to which a model folder's other files give a meaning.
struct SpecialIds {
  std::vector<std::int64_t> ends;  ///< any of them ends an answer; training puts the first one after an answer
  std::int64_t pad = -1;
};

/// A tokenizer.json: the same ids and texts as the `tokenizers` package gives for it. Ill-formed UTF-8 is
/// encoded as its repair_utf8. The file's truncation and padding are for that package's own batches and are
/// ignored here.
class BpeTokenizer final : public capstan::tokenizer::Tokenizer {
 public:
  /// `name` is for messages. The ids of `special` are the tokenizer's.
  BpeTokenizer(std::string name, TokenizerSpec spec, SpecialIds special);
  BpeTokenizer(const BpeTokenizer&) = delete;
  BpeTokenizer& operator=(const BpeTokenizer&) = delete;

  std::string name() const override { return name_; }
  std::int64_t vocab_size() const override { return vocab_size_; }
  std::vector<std::int64_t> encode(std::string_view text) const override;
  /// The ranges that the package gives without its post-processor, in bytes; but where a normal form changes some
  /// characters together, all of these.
  capstan::tokenizer::Encoded encode_with_ranges(std::string_view text) const override;
  /// As the package does with encode_special_tokens.
  std::vector<std::int64_t> encode_ordinary(std::string_view text) const override;
  bool is_special(std::int64_t id) const override;
  /// Ids that it doesn't have give no text.
  std::string decode(const std::vector<std::int64_t>& ids) const override;
  std::int64_t end_id() const override { return special_.ends.empty() ? -1 : special_.ends.front(); }
  bool is_end(std::int64_t id) const override;
  std::int64_t pad_id() const override { return special_.pad; }
  std::vector<std::int64_t> prefix_ids() const override { return spec_.prefix; }
  std::vector<std::int64_t> suffix_ids() const override { return spec_.suffix; }

 private:
  class Encoding;
  struct Token {
    std::string text;
    bool special = false;
  };

  std::string name_;
  SpecialIds special_;
  TokenizerSpec spec_;       // without its model and added tokens, which model_ and the others hold
  std::size_t mapped_from_;  // the first step after ByteLevel, which cuts that one's characters
  CharacterClasses classes_;
  AddedTokens raw_tokens_;         // found in the text as it is
  AddedTokens normalized_tokens_;  // found in the normalized text
  Bpe model_;
  std::unordered_map<std::int64_t, Token> tokens_;
  std::int64_t vocab_size_ = 0;
};

}  // namespace hf
