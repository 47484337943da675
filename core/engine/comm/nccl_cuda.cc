// GPU groups over c10d's NCCL. Part of libcapstan_cuda.so.
#include <capstan/base/error.h>
#include <capstan/base/text.h>

#include <ATen/ATen.h>
#include <ATen/core/functional.h>
#include <c10/cuda/CUDAGraphsC10Utils.h>
#include <c10/cuda/CUDAGuard.h>
#include <c10/cuda/CUDAStream.h>
#include <torch/csrc/distributed/c10d/ProcessGroupNCCL.hpp>

#include <utility>

#include "comm/c10d_store.h"
#include "comm/nccl.h"

namespace capstan::comm {
namespace {

c10d::ReduceOp nccl_op(ReduceOp op) {
  return op == ReduceOp::sum ? c10d::ReduceOp::SUM : op == ReduceOp::max ? c10d::ReduceOp::MAX : c10d::ReduceOp::MIN;
}

/// The tensor outside autograd; c10d reads its memory only.
at::Tensor plain(const at::Tensor& tensor) { return tensor.detach(); }

/// A collective runs on the current stream: c10d keeps no tensor and returns no Work.
template <class Options>
Options in_order() {
  Options options;
  options.asyncOp = false;
  return options;
}

class NcclGroup final : public DeviceGroup {
 public:
  NcclGroup(const NcclOptions& options, const peers::Store& store, std::shared_ptr<peers::CallLog> log)
      : DeviceGroup(options.name, options.ranks, options.rank, options.device, std::move(log)) {
    const c10::cuda::CUDAGuard guard(options.device);
    auto nccl = c10d::ProcessGroupNCCL::Options::create();
    nccl->timeout = options.timeout;
    nccl->group_name = options.name;
    for (const int rank : options.ranks) nccl->global_ranks_in_group.push_back(static_cast<std::uint64_t>(rank));
    auto prefixed = c10::make_intrusive<c10d::PrefixStore>(cat("nccl/", options.name), as_c10d(store));
    try {
      backend_ = c10::make_intrusive<c10d::ProcessGroupNCCL>(prefixed, options.rank, size(), nccl);
      backend_->setGroupUid(options.name);
      backend_->setBoundDeviceId(options.device);
      backend_->eagerConnectSingleDevice(options.device);
    } catch (const c10::Error& error) {
      throw Error(cat("NCCL cannot connect group ", options.name, ": ", error.what_without_backtrace()),
                  "NCCL_DEBUG=INFO shows what it tried");
    }
  }

  ~NcclGroup() override {
    if (!aborted_) backend_->shutdown();
  }

  void abort() override {
    aborted_ = true;
    backend_->abort();
  }

 private:
  void do_all_reduce(const at::Tensor& tensor, ReduceOp op) override {
    std::vector<at::Tensor> list{plain(tensor)};
    auto options = in_order<c10d::AllreduceOptions>();
    options.reduceOp = nccl_op(op);
    backend_->allreduce(list, options);
  }

  void do_all_gather(const at::Tensor& out, const at::Tensor& in) override {
    at::Tensor to = plain(out), from = plain(in);
    backend_->_allgather_base(to, from, in_order<c10d::AllgatherOptions>());
  }

  void do_reduce_scatter(const at::Tensor& out, const at::Tensor& in) override {
    at::Tensor to = plain(out), from = plain(in);
    backend_->_reduce_scatter_base(to, from, in_order<c10d::ReduceScatterOptions>());
  }

  bool can_coalesce() const override { return true; }
  bool is_recorded() const override {
    return c10::cuda::currentStreamCaptureStatusMayInitCtx() != c10::cuda::CaptureStatus::None;
  }

  void do_all_gather_list(const std::vector<at::Tensor>& out, const std::vector<at::Tensor>& in) override {
    auto to = c10::fmap(out, plain), from = c10::fmap(in, plain);
    backend_->allgather_into_tensor_coalesced(to, from, in_order<c10d::AllgatherOptions>());
  }

  void do_reduce_scatter_list(const std::vector<at::Tensor>& out, const std::vector<at::Tensor>& in) override {
    auto to = c10::fmap(out, plain), from = c10::fmap(in, plain);
    backend_->reduce_scatter_tensor_coalesced(to, from, in_order<c10d::ReduceScatterOptions>());
  }

  void do_broadcast(const at::Tensor& tensor, int root) override {
    std::vector<at::Tensor> list{plain(tensor)};
    auto options = in_order<c10d::BroadcastOptions>();
    options.rootRank = root;
    backend_->broadcast(list, options);
  }

  void do_all_to_all(const at::Tensor& out, const at::Tensor& in, const std::vector<std::int64_t>& out_counts,
                     const std::vector<std::int64_t>& in_counts) override {
    at::Tensor to = plain(out), from = plain(in);
    auto out_splits = out_counts, in_splits = in_counts;
    backend_->alltoall_base(to, from, out_splits, in_splits, in_order<c10d::AllToAllOptions>());
  }

  void do_barrier() override {
    do_all_reduce(at::zeros({1}, at::TensorOptions().device(device())), ReduceOp::sum);
    c10::cuda::getCurrentCUDAStream(device().index()).synchronize();
  }

  // c10d always moves these on a stream of its own, which the current one waits for here; as a batch, since it warns of
  // each that is none.
  void transfer(const at::Tensor& tensor, int peer, bool sends) {
    std::vector<at::Tensor> list{plain(tensor)};
    backend_->startCoalescing();
    if (sends) {
      backend_->send(list, peer, 0);
    } else {
      backend_->recv(list, peer, 0);
    }
    if (const auto work = backend_->endCoalescing()) work->wait();
  }

  Rest do_start_send(const at::Tensor& tensor, int to) override {
    transfer(tensor, to, true);
    return [] {};
  }

  void do_receive(const at::Tensor& tensor, int from) override { transfer(tensor, from, false); }

  Rest do_start_receive(const at::Tensor& tensor, int from) override {
    do_receive(tensor, from);
    return [] {};
  }

  c10::intrusive_ptr<c10d::ProcessGroupNCCL> backend_;
  std::atomic<bool> aborted_{false};
};

class Factory final : public NcclFactory {
 public:
  std::shared_ptr<DeviceGroup> make(const NcclOptions& options, const peers::Store& store,
                                    std::shared_ptr<peers::CallLog> log) const override {
    return std::make_shared<NcclGroup>(options, store, std::move(log));
  }
};

}  // namespace
}  // namespace capstan::comm

extern "C" __attribute__((visibility("default"))) const capstan::comm::NcclFactory* capstan_cuda_nccl();
const capstan::comm::NcclFactory* capstan_cuda_nccl() {
  static const capstan::comm::Factory factory;
  return &factory;
}
