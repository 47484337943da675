#include "decode_steps.h"

#include <capstan/tokenizer/utf8.h>

#include <charconv>
#include <optional>
#include <utility>

#include "byte_level.h"

namespace hf {

using namespace capstan;

namespace {

using Tokens = std::vector<std::string>;

std::string joined(const Tokens& tokens) {
  std::string out;
  for (const auto& token : tokens) out += token;
  return out;
}

std::string byte_level_decoded(const Tokens& tokens) {
  std::string bytes;
  for (const auto& token : tokens) bytes += byte_level_bytes(token).value_or(token);
  return tokenizer::repair_utf8(bytes);
}

// The byte that "<0xNN>" names.
std::optional<char> named_byte(const std::string& token) {
  if (token.size() != 6 || token.substr(0, 3) != "<0x" || token[5] != '>') return {};
  unsigned byte = 0;
  const auto* const end = token.data() + 5;
  if (std::from_chars(token.data() + 3, end, byte, 16).ptr != end) return {};
  return static_cast<char>(byte);
}

Tokens with_fallback(const Tokens& tokens) {
  Tokens out;
  std::string bytes;
  const auto flush = [&] {
    if (bytes.empty()) return;
    if (tokenizer::repair_utf8(bytes) == bytes) {
      out.push_back(bytes);
    } else {
      out.insert(out.end(), bytes.size(), "\uFFFD");
    }
    bytes.clear();
  };
  for (const auto& token : tokens) {
    if (const auto byte = named_byte(token)) {
      bytes += *byte;
    } else {
      flush();
      out.push_back(token);
    }
  }
  flush();
  return out;
}

std::string stripped(std::string_view token, const DecodeStep& step) {
  const std::string_view character = step.character;
  for (auto left = step.start; left > 0 && token.starts_with(character); --left) token.remove_prefix(character.size());
  for (auto left = step.stop; left > 0 && token.ends_with(character); --left) token.remove_suffix(character.size());
  return std::string(token);
}

Tokens with_spaces(const DecodeStep& step, Tokens tokens) {
  const TextPattern character(step.character);
  for (std::size_t i = 0; i < tokens.size(); ++i)
    tokens[i] = character.replaced(tokens[i], i == 0 && step.drops_first ? "" : " ");
  return tokens;
}

Tokens decoded(const DecodeStep& step, Tokens tokens) {
  switch (step.kind) {
    case DecodeStep::Kind::byte_level:
      return {byte_level_decoded(tokens)};
    case DecodeStep::Kind::fuse:
      return {joined(tokens)};
    case DecodeStep::Kind::byte_fallback:
      return with_fallback(tokens);
    case DecodeStep::Kind::replace:
      for (auto& token : tokens) token = step.pattern.replaced(token, step.content);
      break;
    case DecodeStep::Kind::strip:
      for (auto& token : tokens) token = stripped(token, step);
      break;
    case DecodeStep::Kind::metaspace:
      return with_spaces(step, std::move(tokens));
  }
  return tokens;
}

}  // namespace

std::string decode_tokens(const std::vector<DecodeStep>& steps, std::vector<std::string> tokens) {
  for (const auto& step : steps) tokens = decoded(step, std::move(tokens));
  return joined(tokens);
}

}  // namespace hf
