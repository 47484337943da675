#include "plugins/strategies/context_parallel/columns.h"

#include <ATen/ATen.h>
#include <capstan_catch.h>

#include <algorithm>
#include <numeric>

namespace columns_test {

using namespace context_parallel;

namespace {

// The columns of all ranks, rank by rank.
std::vector<std::int64_t> all_own(std::int64_t columns, int ranks) {
  std::vector<std::int64_t> list;
  for (int rank = 0; rank < ranks; ++rank) {
    const auto counts = column_counts(columns, ranks);
    const auto before = list.size();
    for (const auto& [begin, length] : own_columns(columns, ranks, rank)) {
      for (std::int64_t i = 0; i < length; ++i) list.push_back(begin + i);
    }
    CHECK(list.size() - before == static_cast<std::size_t>(counts[static_cast<std::size_t>(rank)]));
  }
  return list;
}

}  // namespace

TEST_CASE("every column is one rank's, whether or not the ranks divide them") {
  for (const int ranks : {1, 2, 3, 4, 8}) {
    for (const std::int64_t columns : {1, 2, 5, 16, 23, 24, 48}) {
      INFO(columns << " columns on " << ranks << " ranks");
      auto list = all_own(columns, ranks);
      std::sort(list.begin(), list.end());
      std::vector<std::int64_t> expected(static_cast<std::size_t>(columns));
      std::iota(expected.begin(), expected.end(), 0);
      CHECK(list == expected);
    }
  }
}

TEST_CASE("each rank has a column of rows with as many as there are ranks") {
  for (int ranks = 1; ranks <= 9; ++ranks) {
    for (std::int64_t columns = ranks; columns < 5 * ranks; ++columns) {
      INFO(columns << " columns on " << ranks << " ranks");
      const auto counts = column_counts(columns, ranks);
      CHECK(*std::min_element(counts.begin(), counts.end()) > 0);
    }
  }
}

TEST_CASE("a rank has a chunk from the front and the chunk as far from the end") {
  const auto own = own_columns(24, 3, 1);
  REQUIRE(own.size() == 2);
  CHECK(own[0].begin == 4);
  CHECK(own[1].begin == 16);
  CHECK(column_counts(24, 3) == std::vector<std::int64_t>{8, 8, 8});
  CHECK(column_counts(5, 2) == std::vector<std::int64_t>{2, 3});
}

TEST_CASE("what ranks send is put into the order of columns, and back") {
  for (const int ranks : {1, 2, 3, 4}) {
    for (const std::int64_t columns : {1, 7, 24}) {
      INFO(columns << " columns on " << ranks << " ranks");
      const auto sorted = at::arange(columns, at::kLong).unsqueeze(1).repeat({1, 2});
      const auto list = at::tensor(all_own(columns, ranks), at::kLong);
      const auto ranked = sorted.index_select(0, list);
      CHECK(at::equal(in_order(ranked, ranks), sorted));
      CHECK(at::equal(by_rank(sorted, ranks), ranked));
    }
  }
}

}  // namespace columns_test
