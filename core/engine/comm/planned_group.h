#pragma once
#include <capstan/base/export.h>
#include <capstan/comm/communicator.h>
#include <capstan/comm/group.h>

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

CAPSTAN_BEGIN_NAMESPACE
namespace comm {

/// A group that exists before the rendezvous, with the right sizes and ranks: for placing a model on a mesh whose ranks
/// do not run yet. Until it is connected every call is a bug; on the meta device, whose tensors have no values, calls
/// do nothing. It is also the group of a single rank, whose calls Group makes itself.
class PlannedGroup final : public Group {
 public:
  /// `rank` is the position in `ranks`.
  PlannedGroup(std::string name, const std::vector<int>& ranks, int rank, c10::Device device);
  /// Makes the group of these ranks; later calls go to it. All members call it, in the same order.
  void connect(Communicator& communicator);

 private:
  void tell(const char* operation, const at::Tensor& all) const { tell(operation, all, ranks()); }
  void tell(const char* operation, const at::Tensor& all, const std::vector<int>& among) const;
  void do_all_reduce(const at::Tensor& tensor, ReduceOp op) override;
  void do_all_gather(const at::Tensor& out, const at::Tensor& in) override;
  void do_reduce_scatter(const at::Tensor& out, const at::Tensor& in) override;
  void do_broadcast(const at::Tensor& tensor, int root) override;
  void do_all_to_all(const at::Tensor& out, const at::Tensor& in, const std::vector<std::int64_t>& out_counts,
                     const std::vector<std::int64_t>& in_counts) override;
  void do_barrier() override;
  Rest do_start_send(const at::Tensor& tensor, int to) override;
  void do_receive(const at::Tensor& tensor, int from) override;
};

/// A call that a planned group was asked for on the meta device; or a copy between a rank and its host's memory,
/// "host", where it begins, and without bytes where the rank waits for it.
struct PlannedCall {
  std::string operation;      ///< "all-reduce", "all-gather", "reduce-scatter", "all-to-all", "broadcast", "transfer"
  std::vector<int> ranks;     ///< sender and receiver of a transfer, which only the sender tells
  std::int64_t bytes = 0;     ///< all ranks' bytes: what an all-gather makes, a reduce-scatter or an all-reduce reads
  const void* key = nullptr;  ///< tells copies apart
};

/// During its lifetime calls of this thread's planned groups on the meta device are told to it; one at a time.
class PlannedCalls {
 public:
  using Told = std::function<void(const PlannedCall&)>;
  explicit PlannedCalls(Told told);
  /// Tells this thread's, if there is one.
  static void tell(const PlannedCall& call);
  ~PlannedCalls();
  PlannedCalls(const PlannedCalls&) = delete;
  PlannedCalls& operator=(const PlannedCalls&) = delete;

 private:
  Told told_;
};

}  // namespace comm
CAPSTAN_END_NAMESPACE
