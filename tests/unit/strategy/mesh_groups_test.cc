#include "strategy/mesh_groups.h"

#include <ATen/ATen.h>
#include <capstan_catch.h>

namespace mesh_groups_test {

using namespace capstan;

TEST_CASE("groups are handed out before ranks meet, and connected by the session") {
  comm::run_in_process(2, [&](comm::Communicator& communicator) {
    const auto rank = communicator.world().rank;
    strategy::MeshGroups groups(layout::Mesh({{layout::Axis::dp, 2}}), rank, c10::Device(c10::kCPU));
    const auto group = groups({layout::Axis::dp});
    CHECK(group->size() == 2);
    CHECK(group->rank() == rank);
    auto number = at::full({1}, rank + 1.0);
    CHECK_THROWS_WITH(group->all_reduce(number, comm::ReduceOp::sum, "too early"), Contains("must not communicate"));
    groups.connect(communicator);
    group->all_reduce(number, comm::ReduceOp::sum, "now");
    CHECK(number.item<double>() == 3);
    group->start_all_reduce(number, comm::ReduceOp::sum, "and later")->wait();
    CHECK(number.item<double>() == 6);
    CHECK(groups({layout::Axis::dp}) == group);
  });
}

}  // namespace mesh_groups_test
