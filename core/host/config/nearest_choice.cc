#include "config/nearest_choice.h"

#include <capstan/base/text.h>

#include <algorithm>

namespace capstan::config {
namespace {

using Words = std::vector<std::string>;

// "ShardingStrategy.FULL_SHARD": shardingstrategy, full, shard.
Words words_of(const std::string& text) {
  Words out{{}};
  for (const char c : lower(text)) {
    if ((c >= 'a' && c <= 'z') || (c >= '0' && c <= '9')) {
      out.back() += c;
    } else if (!out.back().empty()) {
      out.emplace_back();
    }
  }
  if (out.back().empty()) out.pop_back();
  return out;
}

bool begins(const Words& all, const Words& part) {
  return part.size() <= all.size() && std::equal(part.begin(), part.end(), all.begin());
}

bool ends(const Words& all, const Words& part) {
  return part.size() <= all.size() && std::equal(part.rbegin(), part.rend(), all.rbegin());
}

// The choice whose words satisfy `fits`; where several do, the one with most words, if it is unique.
template <class Fits>
std::string the_longest(const std::vector<std::string>& choices, const Fits& fits) {
  std::string best;
  std::size_t most = 0;
  for (const auto& choice : choices) {
    const auto words = words_of(choice);
    if (words.empty() || words.size() < most || !fits(words)) continue;
    best = words.size() == most ? std::string() : choice;
    most = words.size();
  }
  return best;
}

}  // namespace

std::string nearest_choice(const std::string& typed, const std::vector<std::string>& choices) {
  const auto words = words_of(typed);
  if (words.empty()) return {};
  for (const auto& choice : choices) {
    if (words_of(choice) == words) return choice;
  }
  auto found = the_longest(choices, [&](const Words& choice) { return begins(words, choice) || ends(words, choice); });
  if (found.empty()) found = the_longest(choices, [&](const Words& choice) { return begins(choice, words); });
  return found.empty() ? nearest_name(lower(typed), choices) : found;
}

}  // namespace capstan::config
