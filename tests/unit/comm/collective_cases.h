#pragma once
// The same checks for every backend: run on each rank, they throw where a result is wrong.
#include <capstan/base/text.h>
#include <capstan/comm/communicator.h>

#include <ATen/ATen.h>

#include <memory>
#include <string>
#include <vector>

namespace comm_test {

void require(bool condition, const std::string& what);
std::vector<int> all_ranks(const capstan::comm::Communicator& c);
std::shared_ptr<capstan::comm::Group> everyone(capstan::comm::Communicator& c);

/// Every operation on float64, float32, bf16 and int64, on the world and on sub-groups. `ordered`: sums are
/// compared bit for bit with a loop in rank order, otherwise only where they are exact.
void check_collectives(capstan::comm::Communicator& c, bool ordered);

/// Values whose sum depends on the order, different on each rank, the same on every run.
at::Tensor rough_values(int rank, std::int64_t size, at::ScalarType dtype);

}  // namespace comm_test
