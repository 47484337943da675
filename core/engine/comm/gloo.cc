// CPU groups over c10d's Gloo. Data moves as bytes, so every dtype works; sums that must have a fixed order are
// computed here, by the function that in-process ranks use too.
#include "comm/gloo.h"

#include <capstan/base/error.h>
#include <capstan/base/text.h>

#include <torch/csrc/distributed/c10d/ProcessGroupGloo.hpp>

#include <atomic>
#include <exception>
#include <thread>
#include <utility>

#include "comm/c10d_store.h"
#include "comm/ordered_sum.h"
#include "peers/peers.h"

namespace capstan::comm {
namespace {

c10d::ReduceOp gloo_op(ReduceOp op) {
  return op == ReduceOp::sum ? c10d::ReduceOp::SUM : op == ReduceOp::max ? c10d::ReduceOp::MAX : c10d::ReduceOp::MIN;
}

at::Tensor as_bytes(const at::Tensor& tensor) { return flat_memory(tensor, at::kByte); }

/// The n equal pieces of a flat tensor.
std::vector<at::Tensor> pieces(const at::Tensor& flat, int n) { return flat.view({n, flat.numel() / n}).unbind(); }

/// Up to this size an all-reduce in rank order gathers everything and sums: one round trip instead of two.
constexpr std::int64_t small_bytes = 16384;

/// Transfers between two ranks keep their order under one tag.
constexpr int transfer_tag = 0;

class GlooGroup final : public Group {
 public:
  GlooGroup(const GlooOptions& options, const std::shared_ptr<peers::Peers>& peers)
      : Group(options.name, options.ranks, options.rank, c10::Device(c10::kCPU), peers->calls()),
        deterministic_(options.deterministic),
        failure_(peers->failure()),
        peers_(peers) {
    auto gloo = c10d::ProcessGroupGloo::Options::create(options.timeout);
    gloo->devices.push_back(options.device);
    gloo->threads = 1;
    auto prefixed = c10::make_intrusive<c10d::PrefixStore>(cat("gloo/", options.name), as_c10d(peers->store()));
    backend_ = guarded(
        [&] { return c10::make_intrusive<c10d::ProcessGroupGloo>(prefixed, options.rank, size(), std::move(gloo)); });
    // From here on the heartbeat judges what hangs: it knows of ranks that wait for a disk.
    backend_->setTimeout(std::chrono::hours(24 * 365));
  }

  ~GlooGroup() override {
    // After a failure its thread may wait for a peer that never answers, and the destructor would wait for the thread.
    // The process is about to end, so the backend is leaked.
    if (failure_->failure()) (void)backend_.release();
  }

 private:
  /// Gloo throws when a connection is lost, usually because a peer has ended: report the run's first failure instead.
  template <class F>
  auto guarded(const F& call) -> decltype(call()) {
    try {
      return call();
    } catch (const std::exception& error) {
      const auto* torch = dynamic_cast<const c10::Error*>(&error);
      if (const auto peers = peers_.lock()) peers->find_failure(torch ? torch->what_without_backtrace() : error.what());
      failure_->throw_if_failed();
      throw;
    }
  }

  void finish(const c10::intrusive_ptr<c10d::Work>& work) {
    const auto done = std::make_shared<std::atomic<bool>>(false);
    work->getFuture()->addCallback(
        [done, failure = failure_](c10::ivalue::Future&) {
          *done = true;
          failure->wake();
        },
        /*uses_future=*/false);
    while (!*done) {
      failure_->wait([&] { return done->load(); }, std::chrono::hours(24));
      if (!*done) failure_->throw_if_failed();
    }
    guarded([&] { work->wait(); });
  }

  /// `out_bytes` and `in_bytes`: those of each rank; empty where all ranks have as many.
  void exchange(const at::Tensor& out, const at::Tensor& in, std::vector<std::int64_t> out_bytes = {},
                std::vector<std::int64_t> in_bytes = {}) {
    at::Tensor to = as_bytes(out), from = as_bytes(in);
    finish(backend_->alltoall_base(to, from, out_bytes, in_bytes));
  }

  void do_all_reduce(const at::Tensor& tensor, ReduceOp op) override {
    if (!deterministic_) {
      std::vector<at::Tensor> list{flat_memory(tensor)};
      c10d::AllreduceOptions options;
      options.reduceOp = gloo_op(op);
      return finish(backend_->allreduce(list, options));
    }
    if (static_cast<std::int64_t>(tensor.nbytes()) <= small_bytes) return do_start_all_reduce(tensor, op)();
    const at::Tensor flat = flat_memory(tensor);
    const std::int64_t piece = (flat.numel() + size() - 1) / size();
    const at::Tensor padded = at::zeros({piece * size()}, flat.options());
    padded.narrow(0, 0, flat.numel()).copy_(flat);
    const at::Tensor mine = at::empty({piece}, flat.options());
    reduce_pieces(mine, padded, op);
    do_all_gather(padded, mine);
    flat.copy_(padded.narrow(0, 0, flat.numel()));
  }

  void reduce_pieces(const at::Tensor& out, const at::Tensor& in, ReduceOp op) {
    const at::Tensor received = at::empty_like(in);
    exchange(received, in);
    reduce_in_rank_order(out, pieces(received, size()), op);
  }

  void do_all_gather(const at::Tensor& out, const at::Tensor& in) override {
    at::Tensor to = as_bytes(out), from = as_bytes(in);
    finish(backend_->_allgather_base(to, from));
  }

  void do_reduce_scatter(const at::Tensor& out, const at::Tensor& in) override {
    reduce_pieces(flat_memory(out), flat_memory(in), ReduceOp::sum);
  }

  void do_broadcast(const at::Tensor& tensor, int root) override {
    std::vector<at::Tensor> list{as_bytes(tensor)};
    c10d::BroadcastOptions options;
    options.rootRank = root;
    finish(backend_->broadcast(list, options));
  }

  void do_all_to_all(const at::Tensor& out, const at::Tensor& in, const std::vector<std::int64_t>& out_counts,
                     const std::vector<std::int64_t>& in_counts) override {
    const auto row = c10::multiply_integers(in.sizes().slice(1)) * static_cast<std::int64_t>(in.element_size());
    if (row == 0) return;
    const auto in_bytes = [row](std::vector<std::int64_t> counts) {
      for (auto& count : counts) count *= row;
      return counts;
    };
    exchange(out, in, in_bytes(out_counts), in_bytes(in_counts));
  }

  void do_barrier() override { finish(backend_->barrier()); }

  /// For the few numbers of a step's host collective: all ranks' are gathered meanwhile, and summed at the end.
  Rest do_start_all_reduce(const at::Tensor& tensor, ReduceOp op) override {
    if (static_cast<std::int64_t>(tensor.nbytes()) > small_bytes) return Group::do_start_all_reduce(tensor, op);
    const at::Tensor mine = flat_memory(tensor);
    const at::Tensor gathered = at::empty({size() * mine.numel()}, mine.options());
    at::Tensor to = as_bytes(gathered), from = as_bytes(mine);
    return [this, mine, gathered, op, work = backend_->_allgather_base(to, from)] {
      finish(work);
      reduce_in_rank_order(mine, pieces(gathered, size()), op);
    };
  }

  /// A send waits for its receiver: it begins now and ends in the rest.
  Rest do_start_send(const at::Tensor& tensor, int to) override {
    std::vector<at::Tensor> list{as_bytes(tensor)};
    return
        [this, list, work = guarded([&] { return backend_->send(list, to, transfer_tag); })] { finish_transfer(work); };
  }

  void do_receive(const at::Tensor& tensor, int from) override { do_start_receive(tensor, from)(); }

  Rest do_start_receive(const at::Tensor& tensor, int from) override {
    std::vector<at::Tensor> list{as_bytes(tensor)};
    return [this, list, work = guarded([&] { return backend_->recv(list, from, transfer_tag); })] {
      finish_transfer(work);
    };
  }

  /// A transfer has no future that calls back. A thread waits for it, so that this one notices a failure meanwhile;
  /// then the thread is left, like the backend.
  void finish_transfer(const c10::intrusive_ptr<c10d::Work>& work) {
    struct Outcome {
      std::atomic<bool> done{false};
      std::exception_ptr error;
    };
    const auto outcome = std::make_shared<Outcome>();
    std::thread([work, outcome, failure = failure_] {
      try {
        work->wait();
      } catch (...) {
        outcome->error = std::current_exception();
      }
      outcome->done = true;
      failure->wake();
    }).detach();
    while (!outcome->done) {
      failure_->wait([&] { return outcome->done.load(); }, std::chrono::hours(24));
      if (!outcome->done) failure_->throw_if_failed();
    }
    if (outcome->error) guarded([&] { std::rethrow_exception(outcome->error); });
  }

  const bool deterministic_;
  std::shared_ptr<peers::FailureState> failure_;
  std::weak_ptr<peers::Peers> peers_;
  c10::intrusive_ptr<c10d::ProcessGroupGloo> backend_;
};

}  // namespace

std::shared_ptr<GlooDevice> make_gloo_device(const std::string& address) {
  return c10d::ProcessGroupGloo::createDeviceForHostname(address);
}

std::shared_ptr<Group> make_gloo_group(const GlooOptions& options, const std::shared_ptr<peers::Peers>& peers) {
  return std::make_shared<GlooGroup>(options, peers);
}

}  // namespace capstan::comm
