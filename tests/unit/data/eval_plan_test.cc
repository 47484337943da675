#include "data/eval_plan.h"

#include <capstan_catch.h>

namespace eval_plan_test {

using capstan::data::EvalPlan;

TEST_CASE("each evaluation sample stands in exactly one row, on any number of ranks") {
  for (const std::int64_t samples : {0, 1, 7, 8, 9, 50}) {
    for (const std::int64_t data_size : {1, 2, 3, 4}) {
      for (const std::int64_t batch : {1, 2, 5}) {
        const EvalPlan plan{samples, data_size, batch};
        std::vector<int> seen(static_cast<std::size_t>(samples));
        for (std::int64_t d = 0; d < data_size; ++d) {
          for (std::int64_t i = 0; i < plan.batches(); ++i) {
            const auto rows = plan.rows(i, d);
            CHECK(rows.size() == static_cast<std::size_t>(batch));
            for (const auto row : rows) {
              if (row >= 0) seen.at(static_cast<std::size_t>(row))++;
            }
          }
        }
        CHECK(seen == std::vector<int>(seen.size(), 1));
        // Not one batch too many either.
        CHECK((plan.batches() == 0 || (plan.batches() - 1) * data_size * batch < samples));
      }
    }
  }
}

TEST_CASE("rows that are left over are empty") {
  const EvalPlan plan{5, 2, 2};
  CHECK(plan.batches() == 2);
  CHECK(plan.rows(0, 0) == std::vector<std::int64_t>{0, 1});
  CHECK(plan.rows(0, 1) == std::vector<std::int64_t>{2, 3});
  CHECK(plan.rows(1, 0) == std::vector<std::int64_t>{4, -1});
  CHECK(plan.rows(1, 1) == std::vector<std::int64_t>{-1, -1});
}

TEST_CASE("an evaluation in batches of no rows is a bug, and no crash") {
  CHECK_THROWS_WITH((EvalPlan{5, 2, 0}.batches()), Contains("at_once > 0"));
  CHECK_THROWS_WITH((EvalPlan{5, 0, 3}.batches()), Contains("at_once > 0"));
}

}  // namespace eval_plan_test
