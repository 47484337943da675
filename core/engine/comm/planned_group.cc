#include "comm/planned_group.h"

#include <stdexcept>
#include <utility>

#include "peers/call_log.h"

namespace capstan::comm {

PlannedGroup::PlannedGroup(std::string name, const std::vector<int>& ranks, int rank, c10::Device device)
    : Group(std::move(name), ranks, rank, device, std::make_shared<peers::CallLog>()) {}

void PlannedGroup::connect(Communicator& communicator) { connect_to(communicator.group(name(), ranks(), device())); }

namespace {
thread_local const PlannedCalls::Told* told_here = nullptr;
}  // namespace

PlannedCalls::PlannedCalls(Told told) : told_(std::move(told)) { told_here = &told_; }
PlannedCalls::~PlannedCalls() { told_here = nullptr; }
void PlannedCalls::tell(const PlannedCall& call) {
  if (told_here) (*told_here)(call);
}

void PlannedGroup::tell(const char* operation, const at::Tensor& all, const std::vector<int>& among) const {
  if (!device().is_meta())
    throw std::logic_error("a collective while a run is only planned: place() must not communicate");
  // A dry run: tensors have shapes and no values.
  if (all.defined())
    PlannedCalls::tell({operation, among, all.numel() * static_cast<std::int64_t>(all.element_size())});
}

void PlannedGroup::do_all_reduce(const at::Tensor& tensor, ReduceOp) { tell("all-reduce", tensor); }
void PlannedGroup::do_all_gather(const at::Tensor& out, const at::Tensor&) { tell("all-gather", out); }
void PlannedGroup::do_reduce_scatter(const at::Tensor&, const at::Tensor& in) { tell("reduce-scatter", in); }
void PlannedGroup::do_broadcast(const at::Tensor& tensor, int) { tell("broadcast", tensor); }
void PlannedGroup::do_all_to_all(const at::Tensor&, const at::Tensor& in, const std::vector<std::int64_t>&,
                                 const std::vector<std::int64_t>&) {
  tell("all-to-all", in);
}
Group::Rest PlannedGroup::do_start_send(const at::Tensor& tensor, int to) {
  tell("transfer", tensor, {ranks()[static_cast<std::size_t>(rank())], ranks()[static_cast<std::size_t>(to)]});
  return [] {};
}
void PlannedGroup::do_receive(const at::Tensor&, int) { tell("transfer", {}); }
void PlannedGroup::do_barrier() { tell("barrier", {}); }

}  // namespace capstan::comm
