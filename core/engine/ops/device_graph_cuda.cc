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
#include <vector>

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
  explicit Graph(std::unique_ptr<PoolShare> share) : share_(std::move(share)) {}
  ~Graph() override {
    for (const auto& piece : pieces_) {
      if (piece.executable != nullptr) (void)cudaGraphExecDestroy(piece.executable);
    }
  }
  Graph(const Graph&) = delete;
  Graph& operator=(const Graph&) = delete;

  void add(cudaGraph_t recorded, std::function<void()> after) {
    auto& piece = pieces_.emplace_back(Piece{nullptr, std::move(after)});
    std::size_t nodes = 0;
    check_graph_call(cudaGraphGetNodes(recorded, nullptr, &nodes), "made");
    if (nodes > 0) check_graph_call(cudaGraphInstantiate(&piece.executable, recorded, 0), "made");
  }
  void stop_allocating() { share_->stop_allocating(); }
  void replay() override {
    const auto stream = c10::cuda::getCurrentCUDAStream().stream();
    for (const auto& piece : pieces_) {
      if (piece.executable != nullptr) C10_CUDA_CHECK(cudaGraphLaunch(piece.executable, stream));
      if (piece.after) piece.after();
    }
  }

 private:
  struct Piece {
    cudaGraphExec_t executable;  ///< null: nothing was recorded
    std::function<void()> after;
  };
  std::unique_ptr<PoolShare> share_;  // what the host does may hold its memory
  std::vector<Piece> pieces_;
};

/// A recording under way; its destructor ends it if nothing else did.
class Recording {
 public:
  Recording(at::cuda::MempoolId_t pool, const c10::cuda::CUDAStream& stream)
      : graph_(std::make_unique<Graph>(std::make_unique<PoolShare>(pool, stream))), stream_(stream.stream()) {
    begin(cudaStreamCaptureModeThreadLocal);
  }
  ~Recording() {
    cudaGraph_t recorded = nullptr;
    if (records_) (void)cudaStreamEndCapture(stream_, &recorded);
    (void)cudaGetLastError();
    if (recorded != nullptr) (void)cudaGraphDestroy(recorded);
  }
  Recording(const Recording&) = delete;
  Recording& operator=(const Recording&) = delete;

  void apart(std::function<void()> work) {
    end(std::move(work));
    begin(cudaStreamCaptureModeRelaxed);
  }
  std::unique_ptr<DeviceGraph> finish() {
    end({});
    graph_->stop_allocating();
    return std::move(graph_);
  }

 private:
  // Calls of other threads are not part of it: NCCL's, and those of a checkpoint being written. Relaxed: another thread
  // may end it, but nothing forbids this one what cannot be recorded.
  void begin(cudaStreamCaptureMode mode) {
    check_graph_call(cudaStreamBeginCapture(stream_, mode), "begun");
    records_ = true;
  }
  void end(std::function<void()> after) {
    records_ = false;
    cudaGraph_t recorded = nullptr;
    check_graph_call(cudaStreamEndCapture(stream_, &recorded), "recorded");
    const std::unique_ptr<CUgraph_st, cudaError_t (*)(cudaGraph_t)> owner(recorded, &cudaGraphDestroy);
    graph_->add(recorded, std::move(after));
  }

  std::unique_ptr<Graph> graph_;
  cudaStream_t stream_;
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

  std::unique_ptr<DeviceGraph> record(const std::function<void(const Apart&)>& work) override {
    const c10::cuda::CUDAStreamGuard guard(stream_);
    Recording recording(pool_, stream_);
    work([&](std::function<void()> apart) { recording.apart(std::move(apart)); });
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
