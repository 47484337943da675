// CUDA graphs. at::cuda::CUDAGraph is not used: it leaves the allocator in its pool if a recording fails.
#include "ops/device_graph.h"

#include <ATen/ATen.h>
#include <ATen/cuda/CUDAGraph.h>
#include <c10/cuda/CUDACachingAllocator.h>
#include <c10/cuda/CUDAException.h>
#include <c10/cuda/CUDAGuard.h>
#include <capstan/base/error.h>
#include <capstan/base/text.h>
#include <cuda_runtime_api.h>
#include <torch/library.h>

#include <utility>

namespace capstan::ops::cuda {
namespace {

namespace allocator = c10::cuda::CUDACachingAllocator;

void check_graph_call(cudaError_t status, const char* what) {
  if (status == cudaSuccess) return;
  (void)cudaGetLastError();  // the next call must not meet it
  throw Error(cat("a CUDA graph cannot be ", what, ": ", cudaGetErrorString(status)),
              "set train.cuda_graphs = \"off\"");
}

/// A reference to the pool that graphs share: their memory stays while one of them exists.
class PoolShare {
 public:
  /// From now on what is allocated on the stream, and on those that its recording has reached, by any thread, is from
  /// the pool.
  PoolShare(at::cuda::MempoolId_t pool, const c10::cuda::CUDAStream& stream)
      : pool_(pool), device_(stream.device_index()) {
    allocator::beginAllocateToPool(device_, pool_, [raw = stream.stream()](cudaStream_t one) {
      auto status = cudaStreamCaptureStatusNone;
      return one == raw ||
             (cudaStreamIsCapturing(one, &status) == cudaSuccess && status == cudaStreamCaptureStatusActive);
    });
  }
  void stop_allocating() {
    if (std::exchange(allocates_, false)) allocator::endAllocateToPool(device_, pool_);
  }
  ~PoolShare() {
    stop_allocating();
    allocator::releasePool(device_, pool_);
  }
  PoolShare(const PoolShare&) = delete;
  PoolShare& operator=(const PoolShare&) = delete;

 private:
  at::cuda::MempoolId_t pool_;
  c10::DeviceIndex device_;
  bool allocates_ = true;
};

class Graph final : public DeviceGraph {
 public:
  Graph(std::unique_ptr<PoolShare> share, cudaGraph_t recorded) : share_(std::move(share)) {
    check_graph_call(cudaGraphInstantiate(&executable_, recorded, 0), "made");
  }
  ~Graph() override {
    if (executable_ != nullptr) (void)cudaGraphExecDestroy(executable_);
  }
  Graph(const Graph&) = delete;
  Graph& operator=(const Graph&) = delete;
  void replay() override { C10_CUDA_CHECK(cudaGraphLaunch(executable_, c10::cuda::getCurrentCUDAStream().stream())); }

 private:
  std::unique_ptr<PoolShare> share_;
  cudaGraphExec_t executable_ = nullptr;
};

/// A recording under way; its destructor ends it if nothing else did.
class Recording {
 public:
  Recording(at::cuda::MempoolId_t pool, const c10::cuda::CUDAStream& stream)
      : share_(std::make_unique<PoolShare>(pool, stream)), stream_(stream.stream()) {
    // Other threads' calls are not part of this recording: NCCL's, and those of a checkpoint being written.
    check_graph_call(cudaStreamBeginCapture(stream_, cudaStreamCaptureModeThreadLocal), "begun");
    records_ = true;
  }
  ~Recording() {
    if (records_) (void)stop();
    (void)cudaGetLastError();
    if (recorded_ != nullptr) (void)cudaGraphDestroy(recorded_);
  }
  Recording(const Recording&) = delete;
  Recording& operator=(const Recording&) = delete;

  std::unique_ptr<DeviceGraph> finish() {
    check_graph_call(stop(), "recorded");
    share_->stop_allocating();
    return std::make_unique<Graph>(std::move(share_), recorded_);
  }

 private:
  cudaError_t stop() {
    records_ = false;
    return cudaStreamEndCapture(stream_, &recorded_);
  }

  std::unique_ptr<PoolShare> share_;
  cudaStream_t stream_;
  cudaGraph_t recorded_ = nullptr;
  bool records_ = false;
};

class Recorder final : public GraphRecorder {
 public:
  explicit Recorder(c10::DeviceIndex device)
      : stream_(c10::cuda::getStreamFromPool(/*isHighPriority=*/false, device)), pool_(at::cuda::graph_pool_handle()) {}

  Room make_room() override {
    const c10::cuda::CUDAGuard guard(stream_.device_index());
    const auto stats = allocator::getDeviceStats(stream_.device_index());
    constexpr auto all = static_cast<std::size_t>(c10::CachingAllocator::StatType::AGGREGATE);
    Room room;
    room.spare = stats.reserved_bytes[all].current - stats.allocated_bytes[all].current;
    allocator::emptyCache();
    std::size_t free = 0;
    std::size_t total = 0;
    C10_CUDA_CHECK(cudaMemGetInfo(&free, &total));
    room.free = static_cast<std::int64_t>(free);
    return room;
  }

  std::unique_ptr<DeviceGraph> record(const std::function<void()>& work) override {
    const c10::cuda::CUDAStreamGuard guard(stream_);
    Recording recording(pool_, stream_);
    work();
    return recording.finish();
  }

 private:
  c10::cuda::CUDAStream stream_;
  at::cuda::MempoolId_t pool_;
};

std::int64_t new_graph_recorder(const at::Tensor& on_device) {
  return reinterpret_cast<std::int64_t>(static_cast<GraphRecorder*>(new Recorder(on_device.device().index())));
}

}  // namespace

TORCH_LIBRARY_IMPL(capstan, CUDA, m) { m.impl("new_graph_recorder", &new_graph_recorder); }

}  // namespace capstan::ops::cuda
