// The plugin by itself: what it makes of its parts.
#include "plugins/data/mixture/sources.h"

#include "tokenizer/byte_tokenizer.h"

#include <capstan/base/text.h>
#include <capstan/testing.h>
#include <capstan_catch.h>

#include <cmath>

#include "support/options.h"

namespace mixture_test {

using namespace capstan;
using namespace mixture;

namespace {

// Samples of `tokens` tokens, which say of which part they are and of which split.
struct Lines : data::Data {
  std::int64_t first = 0;
  std::int64_t samples = 10;
  std::int64_t tokens = 4;
  std::int64_t eval = 0;
  std::int64_t longest = 0;
  std::vector<std::string> sets = {};
  data::SampleForm its_form = {};
  mutable std::int64_t asked_length = 0;

  void check(Diagnostics&) const override {}
  std::shared_ptr<data::DataSource> open(const data::SplitRequest& request) const override {
    class Source final : public data::DataSource {
     public:
      Source(std::int64_t first, std::int64_t samples, std::int64_t tokens)
          : first_(first), samples_(samples), tokens_(tokens) {}
      std::int64_t size() const override { return samples_; }
      data::Sample get(std::int64_t index) const override {
        data::Sample sample;
        sample.tokens.assign(static_cast<std::size_t>(tokens_), first_ + index);
        sample.is_target.assign(sample.tokens.size(), true);
        sample.prompt_length = 1;
        sample.id = cat("line ", index);
        sample.references = {"yes"};
        return sample;
      }
      monitor::Values score(const data::Sample&, const std::string&) const override {
        return {{"exact_match", static_cast<double>(first_) / 10}};
      }
      std::size_t answer_end(std::string_view) const override { return static_cast<std::size_t>(50 - first_ / 10); }
      std::vector<std::int64_t> end_ids() const override { return {7, first_}; }

     private:
      std::int64_t first_, samples_, tokens_;
    };
    asked_length = request.max_length;
    if (!request.set.empty()) return std::make_shared<Source>(first + 90, 3, tokens);
    const auto count = request.split == data::Split::train ? samples : eval;
    return count < 0 ? nullptr : std::make_shared<Source>(first, count, tokens);
  }
  std::int64_t max_length() const override { return longest; }
  bool evaluates() const override { return eval > 0; }
  std::vector<std::string> evaluation_sets() const override { return sets; }
  data::SampleForm form() const override { return its_form; }
};

std::shared_ptr<Lines> lines(std::int64_t first, std::int64_t samples, std::int64_t tokens, std::int64_t eval = 0) {
  auto made = std::make_shared<Lines>();
  made->first = first;
  made->samples = samples;
  made->tokens = tokens;
  made->eval = eval == 0 ? -1 : eval;
  return made;
}

Mixture mixture_of(const std::vector<std::shared_ptr<Lines>>& parts, const testing::OptionValues& values = {}) {
  Mixture made(testing::options_of<MixtureOptions>("data", values));
  std::vector<data::DataPart> all;
  for (std::size_t i = 0; i < parts.size(); ++i) {
    all.push_back(
        {std::string(1, static_cast<char>('a' + i)), static_cast<double>(i + 1), cat("a.toml:", i), parts[i]});
  }
  made.take(std::move(all));
  return made;
}

data::SplitRequest request(data::Split split = data::Split::train, std::string set = {}) {
  return {split, std::make_shared<tokenizer::ByteTokenizer>(), 16, 1000, std::move(set)};
}

std::vector<std::string> faults_of(const Mixture& made) {
  Diagnostics faults;
  made.check(faults);
  std::vector<std::string> all;
  for (const auto& fault : faults.list()) all.push_back(fault.text());
  return all;
}

}  // namespace

TEST_CASE("a mixture gives the samples of its sources, each once, with the source of each") {
  const auto made = mixture_of({lines(100, 10, 4), lines(200, 5, 6), lines(300, 1, 2)});
  const auto source = made.open(request());
  REQUIRE(source->size() == 16);
  CHECK(testing::data_breaches(*source, request(), made.form()).empty());
  CHECK(made.form().sources == std::vector<std::string>{"a", "b", "c"});
  const auto sample = source->get(11);
  CHECK(sample.tokens == std::vector<std::int64_t>(6, 201));
  CHECK(sample.id == "b/line 1");
  REQUIRE(sample.fields.size() == 1);
  CHECK(std::get<std::vector<std::int64_t>>(sample.fields.front()) == std::vector<std::int64_t>{1});
  CHECK(source->get(9).id == "a/line 9");
  CHECK(source->get(15).id == "c/line 0");
  CHECK(source->score(source->question(12, 8), "yes").front().second == 20);
  CHECK(source->answer_end("text") == 20);
  CHECK(source->end_ids() == std::vector<std::int64_t>{7, 100, 200, 300});
}

TEST_CASE("each source that evaluates is a set, and all of them are the plain evaluation") {
  auto with_set = lines(300, 4, 4, 2);
  with_set->sets = {"hard"};
  const auto made = mixture_of({lines(100, 3, 4, 5), lines(200, 3, 4), with_set});
  CHECK(made.evaluates());
  CHECK(made.evaluation_sets() == std::vector<std::string>{"a", "c", "c_hard"});
  CHECK(made.open(request(data::Split::eval))->size() == 7);
  const auto of_c = made.open(request(data::Split::eval, "c"));
  CHECK(of_c->size() == 2);
  CHECK(std::get<std::vector<std::int64_t>>(of_c->get(1).fields.front()) == std::vector<std::int64_t>{2});
  CHECK(made.open(request(data::Split::eval, "c_hard"))->get(0).tokens.front() == 390);
  CHECK_FALSE(mixture_of({lines(100, 3, 4)}).evaluates());
  CHECK(mixture_of({lines(100, 3, 4)}).open(request(data::Split::eval)) == nullptr);
}

TEST_CASE("a source's own length limits its samples, unless nothing is to be cut") {
  auto brief = lines(100, 3, 4), full = lines(200, 3, 4);
  brief->longest = 8;
  CHECK(mixture_of({brief, full}).max_length() == 0);
  mixture_of({brief, full}).open(request());
  CHECK(brief->asked_length == 8);
  CHECK(full->asked_length == 16);
  full->longest = 16;
  CHECK(mixture_of({brief, full}).max_length() == 16);
  auto uncut = request();
  uncut.max_length = 1 << 20;
  mixture_of({brief, full}).open(uncut);
  CHECK(brief->asked_length == 1 << 20);
}

TEST_CASE("weights by tokens give each source its share of them") {
  const auto share_of_second = [](const std::string& weights) {
    const auto made = mixture_of({lines(100, 500, 10), lines(700, 300, 2)}, {{"weights", weights}});
    const auto source = made.open(request());
    const auto order = source->order({3, true, 10, {}});
    double tokens = 0, of_second = 0;
    for (std::int64_t first = 0; first + 10 <= order->samples_per_epoch(); first += 10) {
      for (const auto index : order->samples(0, first, 10)) {
        const auto sample = source->get(index);
        tokens += static_cast<double>(sample.tokens.size());
        if (sample.tokens.front() >= 700) of_second += static_cast<double>(sample.tokens.size());
      }
    }
    return of_second / tokens;
  };
  // The weights are 1 and 2.
  CHECK(std::abs(share_of_second("tokens") - 2.0 / 3) < 0.01);
  CHECK(std::abs(share_of_second("samples") - 2 * 2.0 / (10 + 2 * 2)) < 0.01);
  const auto made = mixture_of({lines(100, 500, 10), lines(700, 300, 2)}, {{"weights", std::string("tokens")}});
  CHECK_THAT(made.open(request())->order({3, true, 10, {}})->text(),
             Contains("source 'a': 500 samples, 0.09091 of those drawn") &&
                 Contains("10 tokens in the mean of 256 samples") && Contains("source 'b'"));
}

TEST_CASE("sources that cannot be mixed are named") {
  auto pairs = lines(300, 4, 4);
  pairs->its_form = {2, {{"reward"}}, "an answer and another one"};
  const auto faults = faults_of(mixture_of({lines(100, 3, 4), pairs}));
  REQUIRE(faults.size() == 1);
  CHECK_THAT(faults.front(), Contains("a.toml:1") && Contains("'b' have 2 sequences (an answer and another one)") &&
                                 Contains("with reward") && Contains("those of 'a' have 1 sequence"));
  CHECK(faults_of(mixture_of({lines(100, 3, 4), lines(200, 3, 4)})).empty());
  auto twice = lines(100, 3, 4);
  twice->sets = {"x", "x"};
  CHECK_THAT(faults_of(mixture_of({twice})).front(), Contains("two evaluations would be named 'a_x'"));
  CHECK_THROWS_WITH(mixture_of({lines(100, 3, 4), lines(200, 0, 4)}).open(request()),
                    Contains("a.toml:1") && Contains("the source 'b' has no samples"));
  CHECK_THROWS_WITH(mixture_of({lines(100, 3, 4), lines(200, -1, 4)}).open(request()),
                    Contains("a.toml:1") && Contains("the source 'b' names no training data"));
  CHECK_THROWS_WITH(mixture_of({lines(100, 3, 4)}, {{"stop", std::string("steps")}}).open(request())->order({}),
                    Contains("train.max_steps"));
}

}  // namespace mixture_test
