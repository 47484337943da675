// Exact match and F1 against the official metric (squad_metric.py) on some hundred awkward answers.
#include <capstan/base/files.h>
#include <capstan/base/json.h>
#include <capstan_catch.h>

#include <optional>

#include "checkpoint/scratch.h"
#include "parity/python.h"
#include "plugins/data/squad/metric.h"

namespace squad_test {

using namespace capstan;

namespace {

// Compares all cases that the script makes, with these words after its file, and their means.
void compare(std::vector<std::string> words, const std::optional<std::string>& no_answer) {
  const Scratch scratch;
  words.insert(words.begin(), scratch / "cases.json");
  run_python("squad_metric.py", words);
  auto cases = Json::parse(read_file(scratch / "cases.json"));
  const auto means = cases.back();
  cases.erase(std::next(cases.begin(), static_cast<std::ptrdiff_t>(cases.size()) - 1));
  REQUIRE(cases.size() > 500);
  double match = 0, f1 = 0;
  std::size_t partial = 0;
  for (const auto& one : cases) {
    INFO(one.dump());
    const auto scores = squad::scores(one.at("prediction").get<std::string>(),
                                      one.at("references").get<std::vector<std::string>>(), no_answer);
    REQUIRE(scores.size() == 2);
    CHECK(scores[0].second == one.at("exact_match").get<double>());
    // The same three operations on the same small integers.
    CHECK(scores[1].second == Approx(one.at("f1").get<double>()).epsilon(1e-15).margin(0));
    match += scores[0].second;
    f1 += scores[1].second;
    partial += scores[1].second > 0 && scores[1].second < 100 ? 1 : 0;
  }
  const auto count = static_cast<double>(cases.size());
  CHECK(match / count == Approx(means.at("exact_match").get<double>()).epsilon(1e-12));
  CHECK(f1 / count == Approx(means.at("f1").get<double>()).epsilon(1e-12));
  CHECK(partial > 40);
  CHECK((match / count > 10 && match / count < 90));
}

}  // namespace

TEST_CASE("exact match and F1 are the official metric's") { compare({}, {}); }

TEST_CASE("exact match and F1 are version 2.0's official metric's where questions may have no answer") {
  compare({"unanswerable"}, "unanswerable");
}

}  // namespace squad_test
