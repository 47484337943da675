#pragma once
#include <capstan/base/export.h>
#include <capstan/tokenizer/tokenizer.h>

CAPSTAN_BEGIN_NAMESPACE
namespace tokenizer {

/// The built-in tokenizer "byte": ids 0…255 are the text's UTF-8 bytes, 256 ends an answer, 257 is padding.
/// An id that it doesn't have (a model's vocabulary may be larger) decodes to U+FFFD.
class ByteTokenizer final : public Tokenizer {
 public:
  std::string name() const override { return "byte"; }
  std::int64_t vocab_size() const override { return 258; }
  std::vector<std::int64_t> encode(std::string_view text) const override;
  Encoded encode_with_ranges(std::string_view text) const override;
  std::string decode(const std::vector<std::int64_t>& ids) const override;
  std::int64_t end_id() const override { return 256; }
  std::int64_t pad_id() const override { return 257; }
};

}  // namespace tokenizer
CAPSTAN_END_NAMESPACE
