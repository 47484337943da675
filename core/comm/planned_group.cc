#include "comm/planned_group.h"

#include <stdexcept>

#include "comm/call_log.h"

namespace capstan::comm {
namespace {

class PlannedGroup final : public Group {
 public:
  PlannedGroup(const std::vector<int>& ranks, int rank, c10::Device device)
      : Group("planned", ranks, rank, device, std::make_shared<CallLog>()) {}

 private:
  void fail() const {
    if (device().is_meta()) return;  // a dry run: tensors have shapes and no values
    throw std::logic_error("a collective while a run is only planned: place() must not communicate");
  }
  void do_all_reduce(const at::Tensor&, ReduceOp) override { fail(); }
  void do_all_gather(const at::Tensor&, const at::Tensor&) override { fail(); }
  void do_reduce_scatter(const at::Tensor&, const at::Tensor&) override { fail(); }
  void do_broadcast(const at::Tensor&, int) override { fail(); }
  void do_all_to_all(const at::Tensor&, const at::Tensor&, const std::vector<std::int64_t>&,
                     const std::vector<std::int64_t>&) override {
    fail();
  }
  void do_barrier() override { fail(); }
};

}  // namespace

std::shared_ptr<Group> planned_group(const std::vector<int>& ranks, int rank, c10::Device device) {
  return std::make_shared<PlannedGroup>(ranks, rank, device);
}

}  // namespace capstan::comm
