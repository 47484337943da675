#include <capstan/base/error.h>
#include <capstan/base/printable.h>
#include <capstan/testing.h>
#include <capstan/tokenizer/tokenizer.h>

#include <algorithm>
#include <optional>
#include <thread>
#include <vector>

#include "testing/breaches.h"

namespace capstan::testing {
namespace {

using Ids = std::vector<std::int64_t>;

constexpr std::int64_t most_ids = 20000;  // a vocabulary's first ids are looked at one by one

const std::vector<std::string> usual_texts{"",
                                           " ",
                                           "a",
                                           "Ada keeps a goat.",
                                           "  two spaces, a\ttab\nand a new line\n",
                                           "1234567890 3.14 -7",
                                           "Zürich, 北京, ελληνικά, \xF0\x9F\xA6\x99",
                                           std::string("a\0b", 3),
                                           std::string(2000, 'x')};

void check_special_ids(const tokenizer::Tokenizer& tokenizer, Breaches& breaches) {
  const auto size = tokenizer.vocab_size();
  const auto is_id = [&](std::int64_t id) { return id >= 0 && id < size; };
  breaches.unless(size > 0, "vocab_size() is ", size);
  for (const auto& [name, id] : {std::pair{"end_id()", tokenizer.end_id()}, {"pad_id()", tokenizer.pad_id()}})
    breaches.unless(id == -1 || is_id(id), name, " is ", id, ", which is no id");
  if (is_id(tokenizer.end_id()))
    breaches.unless(tokenizer.is_end(tokenizer.end_id()), "is_end(end_id()) is false: answers would not end");
  for (const auto& [name, ids] :
       {std::pair{"prefix_ids()", tokenizer.prefix_ids()}, {"suffix_ids()", tokenizer.suffix_ids()}}) {
    breaches.unless(std::all_of(ids.begin(), ids.end(), is_id), name, " has a number that is no id");
    breaches.unless(ids == (name[0] == 'p' ? tokenizer.prefix_ids() : tokenizer.suffix_ids()), name,
                    " is another one the second time");
  }
}

// What a tokenizer may refuse, and else keeps.
template <class Call>
auto unless_refused(const Call& call) -> std::optional<decltype(call())> {
  try {
    return call();
  } catch (const Error&) {
    return {};
  }
}

void check_ranges(const tokenizer::Tokenizer& tokenizer, const std::string& text, const std::string& shown,
                  Breaches& breaches) {
  const auto encoded = unless_refused([&] { return tokenizer.encode_with_ranges(text); });
  if (!encoded) return;
  breaches.unless(encoded->ids == tokenizer.encode(text), "encode_with_ranges(", shown,
                  ") has other ids than encode()");
  breaches.unless(encoded->ranges.size() == encoded->ids.size(), "encode_with_ranges(", shown, ") has ",
                  encoded->ranges.size(), " ranges for ", encoded->ids.size(), " ids");
  tokenizer::TextRange last;
  for (const auto& range : encoded->ranges) {
    breaches.unless(last.begin <= range.begin && range.begin <= range.end, "the ranges of ", shown, " do not ascend");
    breaches.unless(range.end <= text.size(), "a range of ", shown, " ends after the text");
    last = range;
  }
}

void check_ordinary(const tokenizer::Tokenizer& tokenizer, const std::string& text, const std::string& shown,
                    Breaches& breaches) {
  const auto ids = unless_refused([&] { return tokenizer.encode_ordinary(text); });
  const bool has_special =
      ids && std::any_of(ids->begin(), ids->end(), [&](auto id) { return tokenizer.is_special(id); });
  breaches.unless(!has_special, "encode_ordinary(", shown, ") has a special id");
}

void check_text(const tokenizer::Tokenizer& tokenizer, const std::string& text, Breaches& breaches) {
  const auto shown = cat("\"", printable(text.substr(0, 40)), "\"");
  const auto ids = breaches.result("encode(" + shown + ")", [&] { return tokenizer.encode(text); });
  const auto size = tokenizer.vocab_size();
  breaches.unless(std::all_of(ids.begin(), ids.end(), [&](auto id) { return id >= 0 && id < size; }), "encode(", shown,
                  ") has a number that is no id");
  breaches.unless(tokenizer.encode(text) == ids, "encode(", shown, ") has other ids the second time");
  const auto back = breaches.result("decode(encode(" + shown + "))", [&] { return tokenizer.decode(ids); });
  breaches.unless(is_utf8(back), "decode(encode(", shown, ")) is no UTF-8");
  // What the tokenizer has no word for may be several unknown words, each of which is several again.
  const bool is_known = back.find("\uFFFD") == std::string::npos;
  breaches.unless(!is_known || tokenizer.decode(tokenizer.encode(back)) == back, "decode(encode(", shown, ")) is \"",
                  printable(back), "\", which comes back as another text");
  check_ranges(tokenizer, text, shown, breaches);
  check_ordinary(tokenizer, text, shown, breaches);
}

void check_threads(const tokenizer::Tokenizer& tokenizer, const std::vector<std::string>& texts, Breaches& breaches) {
  const auto all = [&] {
    std::vector<Ids> ids;
    for (const auto& text : texts) ids.push_back(tokenizer.encode(text));
    return ids;
  };
  const auto alone = all();
  std::vector<std::vector<Ids>> of_threads(4);
  std::vector<std::thread> threads;
  for (auto& result : of_threads) threads.emplace_back([&] { result = all(); });
  for (auto& thread : threads) thread.join();
  for (const auto& ids : of_threads) breaches.unless(ids == alone, "threads that encode at once get other ids");
}

}  // namespace

std::string tokenizer_breaches(const tokenizer::Tokenizer& tokenizer, const std::vector<std::string>& more) {
  Breaches breaches;
  breaches.unless(!tokenizer.name().empty(), "name() is empty");
  check_special_ids(tokenizer, breaches);
  auto texts = usual_texts;
  texts.insert(texts.end(), more.begin(), more.end());
  for (const auto& text : texts) check_text(tokenizer, text, breaches);
  breaches.unless(tokenizer.decode({}).empty(), "decode({}) is \"", printable(tokenizer.decode({})), "\"");
  for (std::int64_t id = 0; id < std::min(tokenizer.vocab_size(), most_ids); ++id) {
    const auto text = breaches.result(cat("decode({", id, "})"), [&] { return tokenizer.decode({id}); });
    breaches.unless(is_utf8(text), "decode({", id, "}) is no UTF-8");
    breaches.unless(text.empty() || !tokenizer.is_special(id), "is_special(", id, "), whose text is \"",
                    printable(text), "\"");
  }
  if (breaches.text().empty()) check_threads(tokenizer, texts, breaches);
  return breaches.text();
}

}  // namespace capstan::testing
