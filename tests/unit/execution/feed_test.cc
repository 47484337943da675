#include "execution/feed.h"

#include <ATen/ATen.h>
#include <capstan_catch.h>

using namespace capstan;

TEST_CASE("packed rows say where each segment begins; padding is cut to the longest sample's length") {
  data::HostBatch host;
  host.rows = 2;
  host.cols = 12;
  host.tokens.assign(24, 0);
  host.labels.assign(24, -100);
  host.documents = {{0, 0, 5, 7}, {1, 0, 3, 8}, {0, 5, 4, 3}};
  host.lengths = {9, 3};
  host.sample_ids = {7, 8};
  const auto batch = execution::to_device(host, at::kCPU);
  REQUIRE(batch.documents);
  CHECK(batch.documents->longest == 5);
  const auto& bounds = batch.documents->bounds;
  CHECK(bounds.scalar_type() == at::kInt);
  CHECK(at::equal(bounds, at::tensor({0, 5, 9, 12, 15, 20, 24}, at::kInt)));
  CHECK(at::equal(batch.positions.select(0, 0), at::tensor({0, 1, 2, 3, 4, 0, 1, 2, 3, 0, 0, 0}, at::kLong)));
}
