#include <capstan/base/json.h>
#include <capstan_catch.h>

#include "generation/generation.h"

namespace predictions_test {

using namespace capstan;

TEST_CASE("each answer stands in the predictions, also one without an id, or with another's") {
  const std::vector<execution::Answer> answers{
      {0, "a", "", " one ", {}},
      {1, "b", "", "two", {}},
      {2, "a", "", "three", {}},
      {3, "", "", "four", {}},
      {4, "", "", "five", {}},
      {5, "a", "", "six", {}},
      {7, "a (question 8)", "", "seven", {}},
      {8, "a", "", "eight", {}},
  };
  const auto text = generation::library().predictions_text(answers);
  CHECK(Json::parse(text) == Json{{"a", "one"},
                                  {"b", "two"},
                                  {"a (question 2)", "three"},
                                  {"question 3", "four"},
                                  {"question 4", "five"},
                                  {"a (question 5)", "six"},
                                  {"a (question 8)", "seven"},
                                  {"a (question 8)'", "eight"}});
  CHECK(generation::library().predictions_text({}) == "{}\n");
}

}  // namespace predictions_test
