#include "comm/planned_group.h"

#include <stdexcept>
#include <utility>

#include "comm/call_log.h"

namespace capstan::comm {

PlannedGroup::PlannedGroup(std::string name, const std::vector<int>& ranks, int rank, c10::Device device)
    : Group(std::move(name), ranks, rank, device, std::make_shared<CallLog>()) {}

void PlannedGroup::connect(Communicator& communicator) { connect_to(communicator.group(name(), ranks(), device())); }

void PlannedGroup::fail() const {
  if (device().is_meta()) return;  // a dry run: tensors have shapes and no values
  throw std::logic_error("a collective while a run is only planned: place() must not communicate");
}

void PlannedGroup::do_all_reduce(const at::Tensor&, ReduceOp) { fail(); }
void PlannedGroup::do_all_gather(const at::Tensor&, const at::Tensor&) { fail(); }
void PlannedGroup::do_reduce_scatter(const at::Tensor&, const at::Tensor&) { fail(); }
void PlannedGroup::do_broadcast(const at::Tensor&, int) { fail(); }
void PlannedGroup::do_all_to_all(const at::Tensor&, const at::Tensor&, const std::vector<std::int64_t>&,
                                 const std::vector<std::int64_t>&) {
  fail();
}
void PlannedGroup::do_barrier() { fail(); }

std::shared_ptr<Group> planned_group(const std::vector<int>& ranks, int rank, c10::Device device) {
  return std::make_shared<PlannedGroup>("planned", ranks, rank, device);
}

}  // namespace capstan::comm
