#include <capstan/base/error.h>
#include <capstan/base/text.h>
#include <capstan/tokenizer/tokenizer.h>

#include <algorithm>

namespace capstan::tokenizer {

Tokenizer::~Tokenizer() = default;

Encoded Tokenizer::encode_with_ranges(std::string_view text) const {
  Encoded encoded;
  encoded.ids = encode(text);
  std::size_t at = 0;
  for (const auto id : encoded.ids) {
    const auto part = decode({id});
    if (!text.substr(at).starts_with(part)) break;
    encoded.ranges.push_back({at, at + part.size()});
    at += part.size();
  }
  if (encoded.ranges.size() == encoded.ids.size() && at == text.size()) return encoded;
  throw Error(
      cat("the tokenizer '", name(), "' does not say where in a text its tokens stand, and their own texts, one ",
          "after another, are not the text"),
      "take a tokenizer that says it, or let the plugin override encode_with_ranges()");
}

std::vector<std::int64_t> Tokenizer::encode_ordinary(std::string_view text) const {
  auto ids = encode(text);
  const auto special = std::find_if(ids.begin(), ids.end(), [this](std::int64_t id) { return is_special(id); });
  if (special == ids.end()) return ids;
  throw Error(cat("the tokenizer '", name(), "' makes the special id ", *special,
                  " of a text, and has no way to encode the text without special ids"),
              "take the special token's name out of the text, or let the plugin override encode_ordinary()");
}

bool Tokenizer::is_special(std::int64_t id) const {
  const auto is_among = [id](const std::vector<std::int64_t>& ids) {
    return std::find(ids.begin(), ids.end(), id) != ids.end();
  };
  return id >= 0 && (id == pad_id() || is_end(id) || is_among(prefix_ids()) || is_among(suffix_ids()));
}

}  // namespace capstan::tokenizer
