#pragma once
#include <capstan/base/export.h>

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

CAPSTAN_BEGIN_NAMESPACE
namespace tokenizer {

/// The bytes of a text from `begin` up to `end`.
struct TextRange {
  std::size_t begin = 0;
  std::size_t end = 0;

  bool operator==(const TextRange&) const = default;
};

/// Ids of a text, and where in it each of them stands.
struct Encoded {
  std::vector<std::int64_t> ids;
  std::vector<TextRange> ranges;  ///< one for each id; beginnings ascend
};

/// Text to ids and back. Immutable after construction, so safe to use from several threads.
class Tokenizer {
 public:
  virtual ~Tokenizer();
  virtual std::string name() const = 0;
  /// Number of ids; every id is below it.
  virtual std::int64_t vocab_size() const = 0;
  /// Ids of the text itself: no begin or end token is added.
  virtual std::vector<std::int64_t> encode(std::string_view text) const = 0;
  /// The ids of encode(), each with the bytes of `text` that it stands for. Ranges are whole characters, so tokens that
  /// share a character overlap. Where the tokenizer changes the text first, a token's range is that of the characters
  /// that its own were made of; docs/data.md says which changes are followed exactly. By default the ranges follow from
  /// decode() of each id; throws Error where these texts, one after another, are not `text`.
  virtual Encoded encode_with_ranges(std::string_view text) const;
  /// Ids of a text in which the names of special tokens are words like others, so that no text can end an answer or
  /// begin a turn. By default encode(); throws Error where that gives a special id.
  virtual std::vector<std::int64_t> encode_ordinary(std::string_view text) const;
  /// Does the id give no text, as those of begin, end and padding? By default those that the methods below name.
  virtual bool is_special(std::int64_t id) const;
  /// Text of the ids; special ids give no text, ill-formed UTF-8 becomes U+FFFD.
  virtual std::string decode(const std::vector<std::int64_t>& ids) const = 0;
  /// Ids before a text that begins a sequence: Llama's begin token. None by default.
  virtual std::vector<std::int64_t> prefix_ids() const { return {}; }
  /// Ids after a text that is a whole sequence. None by default.
  virtual std::vector<std::int64_t> suffix_ids() const { return {}; }
  /// The id that training puts after an answer. -1 = there is none.
  virtual std::int64_t end_id() const = 0;
  /// Does generation end at this id? A chat model has several such ids.
  virtual bool is_end(std::int64_t id) const { return id >= 0 && id == end_id(); }
  /// Fills rows up to the batch's length; never a target. -1 = there is none.
  virtual std::int64_t pad_id() const = 0;
};

}  // namespace tokenizer
CAPSTAN_END_NAMESPACE
