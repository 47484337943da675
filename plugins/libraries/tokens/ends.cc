#include "tokens/ends.h"

#include <capstan/base/counted.h>
#include <capstan/base/error.h>
#include <capstan/base/log.h>
#include <capstan/base/text.h>

#include <algorithm>
#include <set>

namespace tokens {

using namespace capstan;

namespace {

using Ids = std::vector<std::int64_t>;

bool contains(const Ids& ids, std::int64_t id) { return std::find(ids.begin(), ids.end(), id) != ids.end(); }

// Looks for tokens that stand twice, with nothing but white space between.
class Twice {
 public:
  Twice(const data::DataSource& source, const tokenizer::Tokenizer& tokenizer)
      : tokenizer_(tokenizer), prefix_(tokenizer.prefix_ids()), turn_ends_(source.end_ids()) {}

  /// Those of a sequence.
  std::set<std::int64_t> in(const Ids& tokens, bool has_end_token) const {
    std::set<std::int64_t> found;
    const auto text = tokens.begin() + static_cast<std::ptrdiff_t>(std::min(prefix_.size(), tokens.size()));
    if (const auto first = next(text, tokens.end()); first != tokens.end() && contains(prefix_, *first))
      found.insert(*first);
    if (has_end_token && !tokens.empty() && tokens.back() == tokenizer_.end_id()) {
      const auto last = next(tokens.rbegin() + 1, tokens.rend());
      if (last != tokens.rend() && tokenizer_.is_end(*last)) found.insert(*last);
    }
    if (!turn_ends_.empty()) add_turns(tokens, found);
    return found;
  }

 private:
  void add_turns(const Ids& tokens, std::set<std::int64_t>& found) const {
    for (auto one = tokens.begin(); one != tokens.end(); ++one) {
      if (!contains(turn_ends_, *one)) continue;
      const auto following = next(one + 1, tokens.end());
      if (following != tokens.end() && *following == *one) found.insert(*one);
    }
  }

  template <class Iterator>
  Iterator next(Iterator from, Iterator to) const {
    return std::find_if(from, to, [&](auto id) { return !is_space(id); });
  }

  bool is_space(std::int64_t id) const {
    const auto text = tokenizer_.decode({id});
    return !text.empty() && trim(text).empty();
  }

  const tokenizer::Tokenizer& tokenizer_;
  Ids prefix_;
  Ids turn_ends_;
};

// What a look at the samples shows.
struct Seen {
  std::int64_t looked_at = 0;
  std::int64_t twice = 0;
  std::string first_twice;
  std::set<std::int64_t> ids;
  std::string first_without_end;
};

void add(const data::Sample& sample, std::int64_t index, const Ends& ends, const Twice& twice, Seen& seen) {
  const bool has_end = ends.wants_end(index, sample);
  std::set<std::int64_t> found;
  for (const auto& sequence : data::sequences_of(sample)) found.merge(twice.in(sequence.tokens, has_end));
  ++seen.looked_at;
  if (has_end && ends.tokenizer.end_id() < 0 && seen.first_without_end.empty())
    seen.first_without_end = ends.where(index);
  if (found.empty()) return;
  if (seen.twice++ == 0) seen.first_twice = ends.where(index);
  seen.ids.merge(found);
}

Seen look(const data::DataSource& source, const Ends& ends) {
  constexpr std::int64_t most_samples = 256;
  constexpr std::size_t most_tokens = 1 << 18;
  const Twice twice(source, ends.tokenizer);
  Seen seen;
  std::size_t tokens = 0;
  for (std::int64_t i = 0; i < std::min(most_samples, source.size()) && tokens < most_tokens; ++i) {
    try {
      const auto sample = source.get(i);
      tokens += sample.tokens.size();
      add(sample, i, ends, twice, seen);
    } catch (const Error&) {
      continue;  // said where the sample is drawn
    }
  }
  return seen;
}

std::string twice_text(const Seen& seen) {
  std::vector<std::string> ids;
  for (const auto id : seen.ids) ids.push_back(std::to_string(id));
  return cat(seen.first_twice,
             ": the text begins or ends with a token that is put there too, so that the model sees it ", "twice (",
             ids.size() == 1 ? "id " : "ids ", join(ids), "); so do ", seen.twice, " of the first ",
             counted(seen.looked_at, "sample"),
             ". Take it out of the text, or, if data.turn has it, out of that; `capstan data` shows the tokens");
}

}  // namespace

std::vector<std::string> faults_of_ends(const data::DataSource& source, const Ends& ends) {
  const auto seen = look(source, ends);
  std::vector<std::string> all;
  if (!seen.first_without_end.empty()) {
    all.push_back(cat(
        seen.first_without_end, ": an end token belongs after this text, and the tokenizer (", ends.tokenizer.name(),
        ") has none, so that a model learns no end: its answers stop only at "
        "train.max_new_tokens. Name one as eos_token in the tokenizer_config.json beside tokenizer.json"));
  }
  if (seen.twice > 0) all.push_back(twice_text(seen));
  return all;
}

void EndWarnings::warn(const data::DataSource& source, const Ends& ends) {
  for (const auto& fault : faults_of_ends(source, ends)) {
    if (said_.insert(fault).second) log::warning(fault);
  }
}

}  // namespace tokens
