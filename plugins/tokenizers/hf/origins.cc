#include "origins.h"

#include <capstan/tokenizer/utf8.h>

namespace hf {

using capstan::tokenizer::TextRange;

Origins origins_of_repaired(std::string_view given) {
  Origins origins;
  origins.reserve(given.size());
  for (std::size_t at = 0; at < given.size();) {
    const auto size = capstan::tokenizer::first_character(given.substr(at));
    const auto repaired = capstan::tokenizer::repair_utf8(given.substr(at, size)).size();
    origins.insert(origins.end(), repaired, {at, at + size});
    at += size;
  }
  return origins;
}

void Traced::prepend(std::string_view content, bool traces) {
  text.insert(0, content);
  if (traces) from.insert(from.begin(), content.size(), from.empty() ? TextRange{} : from.front());
}

Traced traced_replaced(const TextPattern& pattern, std::string_view text, std::string_view content,
                       const TextRange* from) {
  Traced out{pattern.replaced(text, content), {}};
  if (!from) return out;
  std::size_t done = 0;
  for (const auto& match : pattern.matches(text)) {
    out.from.insert(out.from.end(), from + done, from + match.begin);
    out.from.insert(out.from.end(), content.size(), match.end > 0 ? from[match.end - 1] : TextRange{});
    done = match.end;
  }
  out.from.insert(out.from.end(), from + done, from + text.size());
  return out;
}

}  // namespace hf
