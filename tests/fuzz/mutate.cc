#include "fuzz/mutate.h"

#include <algorithm>

namespace fuzz {
namespace {

using Random = std::mt19937_64;

std::size_t below(Random& random, std::size_t bound) { return bound == 0 ? 0 : random() % bound; }

void change(std::string& text, const std::vector<std::string>& words, const std::string& other, Random& random) {
  const auto at = below(random, text.size() + 1);
  const auto length = std::min(text.size() - at, std::size_t{1} << below(random, 10));
  switch (below(random, 9)) {
    case 0:  // a bit
      if (at < text.size()) text[at] = static_cast<char>(text[at] ^ 1 << below(random, 8));
      return;
    case 1:  // a byte
      if (at < text.size()) text[at] = static_cast<char>(random());
      return;
    case 2:
      text.erase(at, length);
      return;
    case 3:
      text.resize(at);
      return;
    case 4: {  // a piece twice
      const auto piece = text.substr(at, length);
      text.insert(below(random, text.size() + 1), piece);
      return;
    }
    case 5: {  // a piece of another seed
      const auto from = below(random, other.size() + 1);
      text.insert(at, other.substr(from, length));
      return;
    }
    case 6: {  // a number
      const auto digit = text.find_first_of("0123456789", at);
      if (digit == std::string::npos) return;
      const auto end = std::min(text.find_first_not_of("0123456789", digit), text.size());
      text.replace(digit, end - digit, words[below(random, words.size())]);
      return;
    }
    case 7: {  // a quoted text
      const auto open = text.find('"', at);
      const auto close = open == std::string::npos ? open : text.find('"', open + 1);
      if (close == std::string::npos) return;
      text.replace(open, close - open + 1, words[below(random, words.size())]);
      return;
    }
    default:
      text.insert(at, words[below(random, words.size())]);
  }
}

}  // namespace

std::string Mutator::input(std::uint64_t number) const {
  Random random(number * 0x9E3779B97F4A7C15U + 1);
  auto text = seeds_[below(random, seeds_.size())];
  const auto& other = seeds_[below(random, seeds_.size())];
  for (auto changes = 1 + below(random, 4); changes > 0; --changes) change(text, words_, other, random);
  return text;
}

std::string shrunk(std::string input, const std::function<bool(const std::string&)>& fails, int tries) {
  for (auto size = std::max<std::size_t>(1, input.size() / 2); size >= 1 && tries > 0; size /= 2) {
    for (std::size_t at = 0; at < input.size() && tries > 0; --tries) {
      auto shorter = input;
      shorter.erase(at, size);
      if (fails(shorter)) {
        input = std::move(shorter);
      } else {
        at += size;
      }
    }
    if (size == 1) break;
  }
  return input;
}

}  // namespace fuzz
