#pragma once
#include <capstan/base/export.h>

#include <ATen/core/Tensor.h>
#include <c10/core/Device.h>

#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

CAPSTAN_BEGIN_NAMESPACE
namespace peers {
class CallLog;
}
namespace comm {

enum class ReduceOp { sum, max, min };

class SideStream;

/// A call that was started and not yet waited for. wait() may be called once; the destructor does not wait.
/// Until then no other code may read or write the tensor.
class Pending {
 public:
  virtual ~Pending();
  virtual void wait() = 0;
  /// Would wait() return at once, and nothing on the device wait? On CPU it may stay false.
  virtual bool has_ended() const { return false; }
};

/// Ranks that call collectives together, all in the same order.
///
/// Tensors are contiguous and live on the group's device. On CPU a call returns when the result is there; on
/// CUDA it is queued on the current stream. Every call carries a label ("fsdp blocks.3"): what a hang report and
/// an error name. A failure of a peer throws PeerFailed in the ranks that wait for it. In a group of one rank every
/// call is a copy. Data is moved as raw memory: no autograd node, no version counter. Sums of 16-bit floats in
/// rank order are taken in float32 and rounded once.
/// One thread per group: the loop, the checkpoint writer and the watch thread each have their own.
class Group {
 public:
  virtual ~Group();
  Group(const Group&) = delete;
  Group& operator=(const Group&) = delete;

  const std::string& name() const { return name_; }
  /// This rank's position in ranks().
  int rank() const { return rank_; }
  int size() const { return static_cast<int>(ranks_.size()); }
  /// World ranks of the members, in the group's order.
  const std::vector<int>& ranks() const { return ranks_; }
  c10::Device device() const { return device_; }

  /// In place. With `deterministic` groups the sum is taken in rank order whatever the tensor's size.
  void all_reduce(const at::Tensor& tensor, ReduceOp op, std::string_view label);
  /// out holds size() pieces of in.numel() elements, by rank.
  void all_gather(const at::Tensor& out, const at::Tensor& in, std::string_view label);
  /// in holds size() pieces of out.numel() elements; out receives the sum over ranks of piece rank(). On CPU the
  /// sum is always taken in rank order.
  void reduce_scatter(const at::Tensor& out, const at::Tensor& in, std::string_view label);
  /// The same for several tensors as one call: out[i] and in[i] belong together. All of one dtype. Where the group
  /// coalesces() they go in one launch, otherwise one after the other.
  void all_gather(const std::vector<at::Tensor>& out, const std::vector<at::Tensor>& in, std::string_view label);
  void reduce_scatter(const std::vector<at::Tensor>& out, const std::vector<at::Tensor>& in, std::string_view label);
  bool coalesces() const { return connected_ ? connected_->coalesces() : can_coalesce(); }
  /// Are calls recorded now, to be made later, any number of times? Then the host cannot wait for what they give.
  bool records() const { return connected_ ? connected_->records() : is_recorded(); }
  void broadcast(const at::Tensor& tensor, int root, std::string_view label);
  /// Pieces of dimension 0; counts are rows per rank.
  void all_to_all(const at::Tensor& out, const at::Tensor& in, const std::vector<std::int64_t>& out_counts,
                  const std::vector<std::int64_t>& in_counts, std::string_view label);
  void barrier(std::string_view label);
  /// Asynchronous calls. On CUDA they run on the group's side stream, after the work that the current stream has queued
  /// so far, and wait() makes the stream that is then current wait, not the host. On CPU a small sum runs in the
  /// background if the backend can do that; all others run inside wait(). Several may be pending: a wait() finishes
  /// those that were started before it too, as any other collective of the group does, so that all ranks make their
  /// calls in the order in which they started them.
  std::unique_ptr<Pending> start_all_reduce(const at::Tensor& tensor, ReduceOp op, std::string_view label);
  std::unique_ptr<Pending> start_all_gather(const at::Tensor& out, const at::Tensor& in, std::string_view label);
  std::unique_ptr<Pending> start_reduce_scatter(const at::Tensor& out, const at::Tensor& in, std::string_view label);

  /// From one member to another: what a rank sends to a peer, that peer receives, in the order of their calls, with the
  /// same label, size and dtype. They need no place among the group's collectives on CPU; on CUDA they are queued like
  /// them. send() may return only when the peer receives: two ranks that send to each other start_send(). On CUDA,
  /// what goes one way and what comes back wait for each other in one group, so each way takes a group of its own.
  void send(const at::Tensor& tensor, int to, std::string_view label);
  void receive(const at::Tensor& tensor, int from, std::string_view label);
  /// The tensor may be written again once it was waited for. Any number may be pending.
  std::unique_ptr<Pending> start_send(const at::Tensor& tensor, int to, std::string_view label);
  /// The tensor may be read once it was waited for. Any number may be pending; of one peer's they are waited for in the
  /// order in which they were started. On CUDA later calls of the group come after it.
  std::unique_ptr<Pending> start_receive(const at::Tensor& tensor, int from, std::string_view label);

 protected:
  /// `rank` is the position in `ranks`; calls are recorded in `log`.
  Group(std::string name, std::vector<int> ranks, int rank, c10::Device device, std::shared_ptr<peers::CallLog> log);
  /// From now on every call is made in `other`, which has the same ranks: for a group that was made before the
  /// rendezvous.
  void connect_to(std::shared_ptr<Group> other);

  /// What a call does in wait().
  using Rest = std::function<void()>;
  /// For CPU groups. By default all of the call is made in wait().
  virtual Rest do_start_all_reduce(const at::Tensor& tensor, ReduceOp op);
  /// The same for a send, which must not wait for the peer before the rest is called.
  virtual Rest do_start_send(const at::Tensor& tensor, int to) = 0;
  /// The same for a receive. By default all of it is in the rest.
  virtual Rest do_start_receive(const at::Tensor& tensor, int from);

 private:
  void check(const at::Tensor& tensor, const char* operation, std::string_view label) const;
  /// The same for both tensors of a call where one holds a piece for each rank.
  void check_pieces(const at::Tensor& whole, const at::Tensor& piece, const char* operation,
                    std::string_view label) const;
  /// Logs a call, the group's `number`-th, from its start to its end. Where it throws, its entry stays, for reports,
  /// and the error says where it happened.
  template <class F>
  void record(const char* operation, std::string_view label, std::int64_t number, const F& call);
  /// A call between two members: `number` counts those from the one to the other.
  struct Transfer {
    std::string group;  ///< "pp of 0 (0 to 1)": world ranks
    std::int64_t number;
  };
  Transfer transfer(int from, int to);
  template <class F>
  void record_in(const std::string& group, const char* operation, std::string_view label, std::int64_t number,
                 const F& call);
  std::unique_ptr<Pending> start_on_device(const std::function<void()>& recorded);
  std::unique_ptr<Pending> start_transfer(int from, int to, std::string_view label, const std::function<Rest()>& begin);
  /// Finishes what was started on the host, in its order; up to `last`, or all.
  void finish_started(const std::function<void()>* last = nullptr);
  std::unique_ptr<Pending> start(const char* operation, std::string_view label, const Rest& call,
                                 const std::function<Rest()>& begin);

  virtual void do_all_reduce(const at::Tensor& tensor, ReduceOp op) = 0;
  virtual void do_all_gather(const at::Tensor& out, const at::Tensor& in) = 0;
  virtual void do_reduce_scatter(const at::Tensor& out, const at::Tensor& in) = 0;
  virtual bool can_coalesce() const { return false; }
  virtual void do_all_gather_list(const std::vector<at::Tensor>& out, const std::vector<at::Tensor>& in);
  virtual void do_reduce_scatter_list(const std::vector<at::Tensor>& out, const std::vector<at::Tensor>& in);
  virtual void do_broadcast(const at::Tensor& tensor, int root) = 0;
  virtual void do_all_to_all(const at::Tensor& out, const at::Tensor& in, const std::vector<std::int64_t>& out_counts,
                             const std::vector<std::int64_t>& in_counts) = 0;
  virtual void do_barrier() = 0;
  virtual void do_receive(const at::Tensor& tensor, int from) = 0;
  /// What records() says; then no event says when a call has ended.
  virtual bool is_recorded() const { return false; }

  std::string name_;
  std::vector<int> ranks_;
  int rank_;
  c10::Device device_;
  std::shared_ptr<peers::CallLog> log_;
  std::int64_t calls_ = 0;
  std::map<std::pair<int, int>, std::int64_t> transfers_;     ///< by sender and receiver: how many so far
  std::deque<std::weak_ptr<std::function<void()>>> started_;  ///< on the host, in their order: what is left of each
  std::shared_ptr<Group> connected_;                          ///< makes all calls; null: this group makes them itself
  std::unique_ptr<SideStream> side_stream_;                   ///< runs what is started on a device; made on first use
};

}  // namespace comm
CAPSTAN_END_NAMESPACE
