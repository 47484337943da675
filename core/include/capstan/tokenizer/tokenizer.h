#pragma once
#include <capstan/base/export.h>

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

CAPSTAN_BEGIN_NAMESPACE
namespace tokenizer {

/// Text to ids and back. Immutable after construction, so safe to use from several threads.
class Tokenizer {
 public:
  virtual ~Tokenizer();
  virtual std::string name() const = 0;
  /// Number of ids; every id is below it.
  virtual std::int64_t vocab_size() const = 0;
  /// Ids of the text itself: no begin or end token is added.
  virtual std::vector<std::int64_t> encode(std::string_view text) const = 0;
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
