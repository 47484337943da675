// What `data` says of a whole split, as text and as a page.
#include "plugins/commands/data/statistics.h"

#include <capstan_catch.h>

#include <numeric>

#include "plugins/commands/data/data_page.h"

namespace statistics_test {

using namespace capstan;
using namespace looking;

namespace {

// Its first tokens are a prompt.
data::Sample sample(const std::string& id, std::vector<std::int64_t> tokens, std::size_t prompt) {
  data::Sample made;
  made.id = id;
  made.is_target.assign(tokens.size(), true);
  for (std::size_t i = 0; i < prompt; ++i) made.is_target[i] = false;
  made.tokens = std::move(tokens);
  return made;
}

Statistics of(const std::vector<data::Sample>& samples, std::int64_t max_length = 100,
              const std::vector<session::SampleLength>& whole = {}) {
  Counter counter([&](std::int64_t index) { return samples[static_cast<std::size_t>(index)]; });
  for (const auto& one : samples) counter.add(one);
  return counter.finish(max_length, whole);
}

std::vector<std::int64_t> up_to(std::int64_t last) {
  std::vector<std::int64_t> all(static_cast<std::size_t>(last));
  std::iota(all.begin(), all.end(), 1);
  return all;
}

using Texts = std::vector<std::string>;

}  // namespace

TEST_CASE("lengths, targets and duplicates of a split") {
  const auto counted = of({sample("a", {1, 2, 3, 4}, 2), sample("b", {5, 6}, 1), sample("c", {1, 2, 3, 4}, 3),
                           sample("d", {9}, 1), sample("e", {5, 6}, 1)});
  CHECK(counted.samples == 5);
  CHECK(counted.tokens == 13);
  CHECK(counted.targets == 5);
  CHECK(sentences(counted) ==
        Texts{"tokens of a sample: shortest 1, median 2, mean 2.6, 90 % have at most 4, 99 % at most 4, longest 4",
              "38.5 % of all tokens bear loss (5 of 13)", "1 sample has no token that bears loss",
              "2 samples (40 %) have the tokens of an earlier one; the first is c, as a"});
  CHECK(sentences(of({sample("a", {1}, 0), sample("b", {2}, 0)})).back() == "no two samples have the same tokens");
  CHECK(sentences(of({})).empty());
}

TEST_CASE("samples of two sequences are the same if both are") {
  auto one = sample("a", {1, 2}, 1), other = sample("b", {1, 2}, 1);
  one.others.push_back({{3, 4, 5}, {false, true, true}});
  other.others.push_back({{3, 4, 6}, {false, true, true}});
  const auto counted = of({one, other});
  CHECK(counted.duplicates.count == 0);
  CHECK(counted.lengths == std::vector<std::int64_t>{3, 3});
  CHECK(counted.targets == 6);
}

TEST_CASE("samples of several sources are counted by their names") {
  data::SampleForm form;
  form.fields = {{"weight"}, {data::source_field}};
  form.sources = {"web", "books"};
  const auto names = SourceNames::of(form);
  Counter counter([](std::int64_t) { return data::Sample(); }, names);
  for (const std::int64_t source : {1, 0, 1, 7}) {
    auto one = sample("a", {source + 1, 2}, 1);
    one.fields = {std::vector<float>{0.5F}, std::vector<std::int64_t>{source}};
    counter.add(one);
  }
  CHECK_THAT(statistics_text(counter.finish(9, {})),
             Contains("samples of each source: web 1 (25 %), books 2 (50 %)\n"));
  CHECK(SourceNames::of(data::SampleForm()).names.empty());
}

TEST_CASE("what is cut and what is left out follows from the lengths in the files") {
  const std::vector<session::SampleLength> whole{{4, 2}, {30, 9}, {2, 1}, {25, 3}};
  const std::vector<data::Sample> all{sample("a", {1, 2, 3, 4}, 2), sample("b", up_to(20), 12), sample("c", {7, 8}, 1),
                                      sample("d", up_to(20), 17)};
  CHECK(sentences(of(all, 20, whole))[1] ==
        "2 of 4 samples (50 %) are longer than max_length 20 and cut; 6.7 % of the tokens that bear loss are lost");
  CHECK(sentences(of({all[0], all[2]}, 20, whole))[1] ==
        "2 of 4 samples (50 %) are longer than max_length 20 and left out; 80 % of the tokens that bear loss are lost");
  CHECK(sentences(of({all[0]}, 20, {{4, 2}}))[1] == "none of 1 sample is longer than max_length 20");
  CHECK_FALSE(of({all[0]}, 20, whole).too_long);  // another part of the file
}

TEST_CASE("ranges have round borders, and a long tail is one of them") {
  std::vector<std::int64_t> lengths = up_to(990);
  const auto even = bins_of(lengths);
  REQUIRE(even.size() == 10);
  CHECK(range_text(even.front()) == "0 to 99");
  CHECK(even.front().samples == 99);
  CHECK(even.back().samples == 91);
  lengths.insert(lengths.end(), {5000, 6000});
  const auto tail = bins_of(lengths);
  CHECK(range_text(tail.back()) == "1,000 and more");
  CHECK(tail.back().samples == 2);
  std::int64_t sum = 0;
  for (const auto& bin : tail) sum += bin.samples;
  CHECK(sum == 992);
  const auto one = bins_of({7});
  REQUIRE(one.size() == 1);
  CHECK(range_text(one.front()) == "7");
  CHECK(bins_of({}).empty());
  CHECK(quantile({1, 2, 3, 4}, 0.5) == 2);
  CHECK(quantile({1, 2, 3, 4}, 0.99) == 4);
  CHECK(quantile({}, 0.5) == 0);
}

TEST_CASE("the text has a bar for each range, and one sample shows") {
  std::vector<data::Sample> samples;
  for (int i = 0; i < 200; ++i) samples.push_back(sample("s", up_to(5), 1));
  samples.push_back(sample("long", up_to(58), 1));
  const auto text = statistics_text(of(samples));
  CHECK_THAT(text, Contains("\ntokens") && Contains("5") && Contains("99.5 %") &&
                       Contains(std::string(40, '#') + "\n") && !Contains(std::string(41, '#')));
  CHECK_THAT(text, Contains(" and more") && Contains("0.5 %") && Contains(" #\n"));
  CHECK(statistics_text(of({})).empty());
}

TEST_CASE("the page shows what bears loss, escapes texts and needs no script") {
  const auto counted = of({sample("a", up_to(12), 4), sample("b", up_to(12), 4)});
  const ShownSample shown{
      "sample 0, id <b>: 12 tokens", {{"", {{"Is 1 < 2 & 3?", false}, {" <yes>", true}}}}, {"score: 1"}};
  const auto page = data_page("a.toml: train", {"2 samples", ""}, &counted, {shown});
  CHECK_THAT(page, Contains("<!doctype html>") && Contains("name=\"viewport\"") && Contains("<h1>a.toml: train</h1>") &&
                       Contains("<li>2 samples</li>\n</ul>"));
  CHECK_THAT(page, Contains("<h3>sample 0, id &lt;b&gt;: 12 tokens</h3>\n<pre class=\"sample\">Is 1 &lt; 2 &amp; 3?"
                            "<mark> &lt;yes&gt;</mark></pre>\n<p>score: 1</p>"));
  CHECK_THAT(page, Contains("<rect class=\"bar\" x=\"190\"") && Contains("aria-label=\"Samples by their tokens\""));
  CHECK_THAT(page, Contains("prefers-color-scheme: dark") && !Contains("<script") && !Contains("http"));
  const auto without = data_page("a", {}, nullptr, {});
  CHECK_THAT(without, !Contains("<svg") && !Contains("<h2>"));
}

}  // namespace statistics_test
