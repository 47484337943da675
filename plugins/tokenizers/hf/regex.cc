#include "regex.h"

#include <capstan/base/error.h>
#include <capstan/base/text.h>
#include <oniguruma.h>

#include <array>

#include "characters.h"

namespace hf {

using namespace capstan;

namespace {

const OnigUChar* bytes_of(std::string_view text) { return reinterpret_cast<const OnigUChar*>(text.data()); }

std::string onig_message(int code, OnigErrorInfo* info = nullptr) {
  std::array<OnigUChar, ONIG_MAX_ERROR_MESSAGE_LEN> text{};
  const auto size = onig_error_code_to_str(text.data(), code, info);
  return {reinterpret_cast<const char*>(text.data()), static_cast<std::size_t>(size)};
}

// Once, before anything else of the library is used.
void start_oniguruma() {
  static const int started = [] {
    std::array<OnigEncoding, 1> encodings{ONIG_ENCODING_UTF8};
    // For one search; the library's own limit (ten million) is for each place where it begins to match.
    constexpr unsigned long most_steps = 100'000'000;
    const auto code = onig_initialize(encodings.data(), 1);
    return code == ONIG_NORMAL ? onig_set_retry_limit_in_search(most_steps) : code;
  }();
  CAPSTAN_ASSERT(started == ONIG_NORMAL);
}

}  // namespace

struct Regex::Compiled {
  explicit Compiled(const std::string& pattern) {
    OnigErrorInfo info{};
    const auto* begin = bytes_of(pattern);
    const auto code = onig_new(&regex, begin, begin + pattern.size(), ONIG_OPTION_NONE, ONIG_ENCODING_UTF8,
                               ONIG_SYNTAX_DEFAULT, &info);
    if (code != ONIG_NORMAL) throw Error(onig_message(code, &info));
  }
  ~Compiled() { onig_free(regex); }
  Compiled(const Compiled&) = delete;
  Compiled& operator=(const Compiled&) = delete;
  OnigRegex regex = nullptr;
};

Regex::Regex(const std::string& pattern) : pattern_(pattern) {
  start_oniguruma();
  compiled_ = std::make_shared<const Compiled>(with_own_classes(pattern));
}

std::string shown_pattern(const std::string& pattern) {
  constexpr std::size_t most = 200;
  return pattern.size() <= most ? pattern : cat(pattern.substr(0, most), " …");
}

std::vector<ByteRange> Regex::matches(std::string_view text, std::optional<std::chrono::milliseconds> patience) const {
  using Clock = std::chrono::steady_clock;
  const std::chrono::milliseconds usual(10'000 + text.size() / 100);
  const auto until = Clock::now() + patience.value_or(usual);
  const auto refuse = [&](const std::string& why) {
    throw Error(cat("the pattern ", shown_pattern(pattern_), " cannot cut a text of ", text.size(), " bytes: ", why),
                "shorten the text, or write a tokenizer plugin");
  };
  const auto free_region = [](OnigRegion* region) { onig_region_free(region, 1); };
  const std::unique_ptr<OnigRegion, decltype(free_region)> region(onig_region_new(), free_region);
  const auto* begin = bytes_of(text);
  const auto* end = begin + text.size();
  std::vector<ByteRange> found;
  for (std::size_t from = 0; from <= text.size();) {
    const auto code = onig_search(compiled_->regex, begin, end, begin + from, end, region.get(), ONIG_OPTION_NONE);
    if (code == ONIG_MISMATCH) break;
    if (code < 0) refuse(onig_message(code));
    if (Clock::now() > until) refuse(cat("it took too long, and had come to byte ", region->beg[0]));
    const ByteRange match{static_cast<std::size_t>(region->beg[0]), static_cast<std::size_t>(region->end[0])};
    if (match.begin == match.end && !found.empty() && found.back().end == match.end) {
      from += from < text.size() ? character_at(text, from).size : 1;
      continue;
    }
    found.push_back(match);
    from = match.end;
  }
  return found;
}

}  // namespace hf
