#include "data/loss_rows.h"

#include <capstan/base/error.h>
#include <capstan_catch.h>

#include <algorithm>

namespace loss_rows_test {

using namespace capstan;
using data::ignored_label;
using data::loss_rows;

namespace {

data::HostBatch batch_of(std::int64_t rows, std::int64_t cols, const std::vector<std::int64_t>& targets) {
  data::HostBatch batch;
  batch.rows = rows;
  batch.cols = cols;
  batch.labels.assign(static_cast<std::size_t>(rows * cols), ignored_label);
  for (const auto at : targets) batch.labels[static_cast<std::size_t>(at)] = 7;
  batch.target_tokens = static_cast<std::int64_t>(targets.size());
  return batch;
}

}  // namespace

TEST_CASE("logits are computed of few different numbers of positions, none of which is 0") {
  const std::vector<std::pair<std::int64_t, std::int64_t>> expected{
      {0, 256},    {1, 256},     {256, 256},   {257, 512},   {512, 512},   {513, 768},
      {769, 1024}, {1024, 1024}, {1025, 1536}, {1537, 2048}, {3072, 3072}, {3073, 4096}};
  for (const auto& [targets, rows] : expected) CHECK(loss_rows(targets, 1 << 20) == rows);
}

TEST_CASE("where less than a quarter of the positions would be left out, all are computed") {
  CHECK(loss_rows(5, 341) == 341);
  CHECK(loss_rows(5, 342) == 256);
  CHECK(loss_rows(8192, 8192) == 8192);
  CHECK(loss_rows(6144, 8192) == 6144);
  CHECK(loss_rows(6145, 8192) == 8192);
  CHECK(loss_rows(0, 8) == 8);
}

TEST_CASE("the positions are all that bear loss and the first of the others, in order") {
  const std::vector<std::int64_t> targets{300, 301, 550, 599};
  const auto list = data::loss_row_list(batch_of(3, 200, targets));
  REQUIRE(list.size() == 256);
  CHECK(std::is_sorted(list.begin(), list.end()));
  CHECK(std::adjacent_find(list.begin(), list.end()) == list.end());
  for (std::int64_t i = 0; i < 252; ++i) CHECK(list[static_cast<std::size_t>(i)] == i);
  CHECK(std::vector<std::int64_t>(list.end() - 4, list.end()) == targets);
  CHECK(data::loss_row_list(batch_of(3, 200, {})).back() == 255);
  CHECK(data::loss_row_list(batch_of(2, 100, {5})).empty());
}

TEST_CASE("more labels than a batch says that it has are a bug") {
  auto batch = batch_of(3, 200, {1, 2, 3});
  batch.target_tokens = 2;
  std::fill_n(batch.labels.begin(), 300, 7);
  CHECK_THROWS(data::loss_row_list(batch));
}

}  // namespace loss_rows_test
