#include "added_tokens.h"

#include <algorithm>

namespace hf {

namespace {

bool alone(const CharacterClasses& classes, std::string_view text, std::size_t start, std::size_t end) {
  return (start == 0 || !classes.is_word(character_before(text, start).value)) &&
         (end == text.size() || !classes.is_word(character_at(text, end).value));
}

std::size_t before_space(const CharacterClasses& classes, std::string_view text, std::size_t at) {
  while (at > 0) {
    const auto character = character_before(text, at);
    if (!classes.is_space(character.value)) break;
    at -= character.size;
  }
  return at;
}

}  // namespace

AddedTokens::AddedTokens() : nodes_(1) {}

void AddedTokens::add(const AddedToken& token, std::string_view pattern) {
  begins_[static_cast<unsigned char>(pattern.front())] = true;
  std::size_t node = 0;
  for (const char byte : pattern) {
    const auto found = nodes_[node].next.find(byte);
    const auto next = found == nodes_[node].next.end() ? nodes_.size() : found->second;
    if (next == nodes_.size()) {
      nodes_[node].next.emplace(byte, next);
      nodes_.emplace_back();
    }
    node = next;
  }
  if (nodes_[node].token < 0) nodes_[node].token = static_cast<std::int32_t>(tokens_.size());
  tokens_.push_back(token);
}

AddedTokens::Match AddedTokens::longest_at(std::string_view text, std::size_t at) const {
  Match match;
  std::size_t node = 0;
  while (at < text.size()) {
    const auto found = nodes_[node].next.find(text[at]);
    if (found == nodes_[node].next.end()) break;
    node = found->second;
    ++at;
    if (nodes_[node].token >= 0) match = {at, nodes_[node].token};
  }
  return match;
}

std::vector<AddedTokens::Part> AddedTokens::cut(const CharacterClasses& classes, std::string_view text,
                                                bool ordinary) const {
  std::vector<Part> parts;
  std::size_t done = 0;  // the text before it belongs to a part
  for (std::size_t at = 0; at < text.size();) {
    if (!begins_[static_cast<unsigned char>(text[at])]) {
      ++at;
      continue;
    }
    const auto match = longest_at(text, at);
    if (match.token < 0) {
      ++at;
      continue;
    }
    const auto& token = tokens_[static_cast<std::size_t>(match.token)];
    auto start = at;
    auto end = at = match.end;  // the search continues after the token itself, whatever white space it takes
    if (ordinary && token.special) continue;
    if (token.single_word && !alone(classes, text, start, end)) continue;
    // A token in white space that the one before has taken is found again.
    if (token.lstrip) start = std::min(start, std::max(before_space(classes, text, start), done));
    if (token.rstrip) end = run_end(text, end, [&](char32_t c) { return classes.is_space(c); });
    if (done < start) parts.push_back({text.substr(done, start - done), -1});
    parts.push_back({text.substr(start, end - start), token.id});
    done = end;
  }
  if (done < text.size()) parts.push_back({text.substr(done), -1});
  return parts;
}

}  // namespace hf
