#include "sample_text.h"

#include <capstan/base/text.h>

#include <algorithm>
#include <cstdint>

namespace looking {
namespace {

using namespace capstan;
using Ids = std::vector<std::int64_t>;

// Of a token that stands for no text. Twice, for a lone space may be stripped.
bool is_silent(const tokenizer::Tokenizer& tokenizer, std::int64_t id) { return tokenizer.decode({id, id}).empty(); }

// The text that ids add to what stands before them; decoded with it, since a text's first piece may lose a space.
std::string added_text(const tokenizer::Tokenizer& tokenizer, const Ids& tokens, std::size_t begin, std::size_t end) {
  const auto first = tokens.begin();
  const auto before = tokenizer.decode({first, first + static_cast<std::ptrdiff_t>(begin)});
  const auto all = tokenizer.decode({first, first + static_cast<std::ptrdiff_t>(end)});
  return {std::mismatch(before.begin(), before.end(), all.begin(), all.end()).second, all.end()};
}

std::string text_of(const tokenizer::Tokenizer& tokenizer, const Ids& tokens, std::size_t begin, std::size_t end) {
  std::string text;
  for (auto at = begin; at < end;) {
    auto stop = at;
    while (stop < end && !is_silent(tokenizer, tokens[stop])) ++stop;
    text += added_text(tokenizer, tokens, at, stop);
    if (stop < end) text += cat("[id ", tokens[stop], "]");
    at = stop + 1;
  }
  return text;
}

}  // namespace

std::vector<SamplePart> sample_parts(const data::Sample& sample, const tokenizer::Tokenizer& tokenizer) {
  std::vector<SamplePart> parts;
  const auto is_target = [&](std::size_t t) { return t > 0 && sample.is_target[t]; };  // nothing predicts the first
  for (std::size_t begin = 0; begin < sample.tokens.size();) {
    auto end = begin;
    while (end < sample.tokens.size() && is_target(end) == is_target(begin)) ++end;
    if (auto text = text_of(tokenizer, sample.tokens, begin, end); !text.empty())
      parts.push_back({std::move(text), is_target(begin)});
    begin = end;
  }
  return parts;
}

}  // namespace looking
