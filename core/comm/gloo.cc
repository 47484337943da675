// CPU groups over c10d's Gloo. Data moves as bytes, so every dtype works; sums that must have a fixed order are
// computed here, by the function that in-process ranks use too.
#include "comm/gloo.h"

#include <capstan/base/error.h>
#include <capstan/base/text.h>

#include <torch/csrc/distributed/c10d/ProcessGroupGloo.hpp>

#include <atomic>
#include <utility>

#include "comm/call_log.h"
#include "comm/failure.h"
#include "comm/ordered_sum.h"
#include "store/store_handle.h"

namespace capstan::comm {
namespace {

using Work = c10::intrusive_ptr<c10d::Work>;

class Device final : public GlooDevice {
 public:
  explicit Device(std::shared_ptr<::gloo::transport::Device> device) : gloo(std::move(device)) {}
  std::shared_ptr<::gloo::transport::Device> gloo;
};

c10d::ReduceOp gloo_op(ReduceOp op) {
  switch (op) {
    case ReduceOp::max:
      return c10d::ReduceOp::MAX;
    case ReduceOp::min:
      return c10d::ReduceOp::MIN;
    case ReduceOp::sum:
      break;
  }
  return c10d::ReduceOp::SUM;
}

at::Tensor as_bytes(const at::Tensor& tensor) { return flat_memory(tensor, at::kByte); }

/// The n equal pieces of a flat tensor.
std::vector<at::Tensor> pieces(const at::Tensor& flat, int n) {
  const std::int64_t length = flat.numel() / n;
  std::vector<at::Tensor> parts;
  parts.reserve(static_cast<std::size_t>(n));
  for (int i = 0; i < n; ++i) parts.push_back(flat.narrow(0, i * length, length));
  return parts;
}

/// Up to this size an all-reduce in rank order gathers everything and sums: one round trip instead of two.
constexpr std::int64_t small_bytes = 16384;

class GlooGroup final : public Group {
 public:
  GlooGroup(const GlooOptions& options, const store::Store& store, std::shared_ptr<CallLog> log,
            std::shared_ptr<FailureState> failure, std::function<void(const std::string&)> on_lost)
      : Group(options.name, options.ranks, options.rank, c10::Device(c10::kCPU), std::move(log)),
        deterministic_(options.deterministic),
        failure_(std::move(failure)),
        on_lost_(std::move(on_lost)) {
    auto gloo = c10d::ProcessGroupGloo::Options::create(options.timeout);
    gloo->devices.push_back(static_cast<const Device&>(*options.device).gloo);
    gloo->threads = 1;
    auto prefixed = c10::make_intrusive<c10d::PrefixStore>(cat("gloo/", options.name), store.handle().store->clone());
    const auto make = [&] {
      return c10::make_intrusive<c10d::ProcessGroupGloo>(prefixed, options.rank, size(), std::move(gloo));
    };
    backend_ = guarded(make);
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
      on_lost_(torch ? torch->what_without_backtrace() : error.what());
      failure_->throw_if_failed();
      throw;
    }
  }

  void finish(const Work& work) {
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

  void gather_bytes(const at::Tensor& out, const at::Tensor& in) {
    at::Tensor to = as_bytes(out);
    at::Tensor from = as_bytes(in);
    finish(backend_->_allgather_base(to, from));
  }

  void exchange_equal_pieces(const at::Tensor& out, const at::Tensor& in) {
    at::Tensor to = as_bytes(out);
    at::Tensor from = as_bytes(in);
    std::vector<std::int64_t> equal;
    finish(backend_->alltoall_base(to, from, equal, equal));
  }

  void do_all_reduce(const at::Tensor& tensor, ReduceOp op) override {
    if (!deterministic_) {
      std::vector<at::Tensor> list{flat_memory(tensor)};
      c10d::AllreduceOptions options;
      options.reduceOp = gloo_op(op);
      return finish(backend_->allreduce(list, options));
    }
    if (static_cast<std::int64_t>(tensor.nbytes()) <= small_bytes) return do_start_all_reduce(tensor, op)->wait();
    const at::Tensor flat = flat_memory(tensor);
    const std::int64_t piece = (flat.numel() + size() - 1) / size();
    const at::Tensor padded = at::zeros({piece * size()}, flat.options());
    padded.narrow(0, 0, flat.numel()).copy_(flat);
    const at::Tensor mine = at::empty({piece}, flat.options());
    reduce_pieces(mine, padded, op);
    gather_bytes(padded, mine);
    flat.copy_(padded.narrow(0, 0, flat.numel()));
  }

  void reduce_pieces(const at::Tensor& out, const at::Tensor& in, ReduceOp op) {
    const at::Tensor received = at::empty_like(in);
    exchange_equal_pieces(received, in);
    reduce_in_rank_order(out, pieces(received, size()), op);
  }

  void do_all_gather(const at::Tensor& out, const at::Tensor& in) override { gather_bytes(out, in); }

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
    at::Tensor to = as_bytes(out);
    at::Tensor from = as_bytes(in);
    auto out_splits = in_bytes(out_counts);
    auto in_splits = in_bytes(in_counts);
    finish(backend_->alltoall_base(to, from, out_splits, in_splits));
  }

  void do_barrier() override { finish(backend_->barrier()); }

  std::unique_ptr<Pending> do_start_all_reduce(const at::Tensor& tensor, ReduceOp op) override;

  friend class GatherAndSum;
  const bool deterministic_;
  std::shared_ptr<FailureState> failure_;
  std::function<void(const std::string&)> on_lost_;
  c10::intrusive_ptr<c10d::ProcessGroupGloo> backend_;
};

/// An all-reduce in flight: all ranks' tensors are being gathered; wait() computes the sum. Meant for the few numbers
/// of a step's host collective.
class GatherAndSum final : public Pending {
 public:
  GatherAndSum(GlooGroup& group, const at::Tensor& tensor, ReduceOp op)
      : group_(group), tensor_(flat_memory(tensor)), op_(op) {
    gathered_ = at::empty({group.size() * tensor_.numel()}, tensor_.options());
    at::Tensor to = as_bytes(gathered_);
    at::Tensor from = as_bytes(tensor);
    work_ = group.backend_->_allgather_base(to, from);
  }
  void wait() override {
    group_.finish(work_);
    reduce_in_rank_order(tensor_, pieces(gathered_, group_.size()), op_);
  }

 private:
  GlooGroup& group_;
  at::Tensor tensor_;
  at::Tensor gathered_;
  ReduceOp op_;
  Work work_;
};

std::unique_ptr<Pending> GlooGroup::do_start_all_reduce(const at::Tensor& tensor, ReduceOp op) {
  if (static_cast<std::int64_t>(tensor.nbytes()) > small_bytes) return Group::do_start_all_reduce(tensor, op);
  return std::make_unique<GatherAndSum>(*this, tensor, op);
}

}  // namespace

GlooDevice::~GlooDevice() = default;

std::shared_ptr<GlooDevice> make_gloo_device(const std::string& address) {
  return std::make_shared<Device>(c10d::ProcessGroupGloo::createDeviceForHostname(address));
}

std::shared_ptr<Group> make_gloo_group(const GlooOptions& options, const store::Store& store,
                                       std::shared_ptr<CallLog> log, std::shared_ptr<FailureState> failure,
                                       std::function<void(const std::string& reason)> on_lost) {
  return std::make_shared<GlooGroup>(options, store, std::move(log), std::move(failure), std::move(on_lost));
}

}  // namespace capstan::comm
