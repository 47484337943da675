#pragma once
#include <capstan/base/export.h>
#include <capstan/checkpoint/safetensors.h>
#include <capstan/comm/group.h>
#include <capstan/layout/footprint.h>
#include <capstan/layout/source.h>
#include <capstan/record/checkpoints.h>

#include <ATen/core/Tensor.h>

#include <atomic>
#include <cstdint>
#include <exception>
#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "checkpoint/commit_point.h"

CAPSTAN_BEGIN_NAMESPACE
namespace checkpoint {

struct BoxEntry;
class HostCopy;
struct Order;

/// What one rank saves of one logical tensor. Names: "model/<record>", "optimizer/<state>/<record>" and, for
/// strategies' own state, "shared/<plugin>/<name>/<record>" and "strategy/<plugin>/<…>/rank-<r>". If several ranks hold
/// the same box, only the one with Layout::counts saves it; the boxes of all ranks together hold each element exactly
/// once.
struct TensorBox {
  std::string tensor;
  layout::Shape shape;  ///< the logical tensor's
  layout::Box box;
  at::Tensor data;            ///< the box's elements in row-major order, any shape, any device
  bool until_update = false;  ///< nothing writes to the data before the next optimizer update
};

/// A finished save, the same on all ranks except for the times.
struct Saved {
  std::filesystem::path path;
  std::int64_t step = 0;
  std::int64_t bytes = 0;       ///< bytes of all ranks' tensors
  std::int64_t rank_bytes = 0;  ///< bytes of this rank's tensors
  double stall_s = 0;           ///< how long training waited: in start(), and before the next update
  double write_s = 0;           ///< from then to the commit, background copies included
};

/// Writes a checkpoint to exactly `path` (replacing an existing one) and returns when it is committed: the final
/// weights of a run are one without optimizer tensors. A collective of the group, which is on CPU. An error of any
/// rank is thrown on all of them, after the temporary folder is removed. `attempt` ends the temporary folder's name.
/// Tensors on a GPU are copied to host memory one at a time.
Saved save(const std::filesystem::path& path, comm::Group& group, const Meta& meta, const std::vector<TensorBox>& boxes,
           const std::string& attempt = "0", const AtPoint& at_point = {});

struct WriterOptions {
  std::filesystem::path folder;  ///< where checkpoints are; it is made when the first is written
  std::string attempt = "0";     ///< "<job>.<restart>": ends the names of temporary folders; rank 0's counts
  bool async = true;             ///< write in the background; else start() returns when the checkpoint is committed
  bool pinned = true;            ///< page-locked host memory for the copies of tensors on a GPU
  Keep keep;
  AtPoint at_point;  ///< called on the thread that writes; for crash tests
};

/// Saves checkpoints while training continues, one at a time. Boxes are copied during training's next forward and
/// backward, from a GPU on a side stream, from host memory by the writer's own thread; only the update after them waits
/// for the remaining copies (before_update()). That thread then writes, syncs and hashes, agrees with the other ranks
/// over its own group, and rank 0 commits. Temporary folders that a crash left are removed when the next save
/// begins.
///
/// All ranks call start() with the same step, in the same order. A failure of any rank (a full disk, an error of the
/// file system) becomes the same Error on all of them, thrown by whichever of start(), wait() and poll() comes next;
/// earlier checkpoints stay, and the next start() tries again. One thread uses a writer.
class Writer {
 public:
  /// `group` is of the whole world, on CPU, made by all ranks, and only this writer uses it.
  Writer(WriterOptions options, std::shared_ptr<comm::Group> group);
  /// Waits for the save in progress; its failure is logged.
  ~Writer();
  Writer(const Writer&) = delete;
  Writer& operator=(const Writer&) = delete;

  /// Allocates the host memory for saves of these boxes now, so that a lack of it is known at the start and the first
  /// save does not wait for it. Otherwise the first start() does.
  void reserve(const std::vector<TensorBox>& boxes);
  /// Waits for the previous save (and throws its failure), begins to copy, and returns while that runs. Returns
  /// the previous save, if it was not returned yet. Boxes with `until_update` must not change until before_update() has
  /// returned; the others are copied before this returns, or on a GPU before the next work of the current stream.
  std::optional<Saved> start(Meta meta, const std::vector<TensorBox>& boxes);
  /// To be called before each optimizer update: work after this call, on the host and on the current stream, comes
  /// after the copies. The host waits only for the copies of host memory.
  void before_update();
  /// Waits for the save in progress. Returns its result, if it was not returned yet.
  std::optional<Saved> wait();
  /// The same without waiting: nothing if it is not done.
  std::optional<Saved> poll();
  /// Gives back the memory of reserve(); called when no save is in progress.
  void release();
  /// Is a save in progress?
  bool busy() const;
  /// How long the last committed save took in total (stall and writing), in seconds; 0 before the first.
  double last_duration_s() const { return last_duration_s_; }

  /// Host memory that background saves use during the writer's lifetime, if a rank saves `bytes` of boxes:
  /// reserve() and start() allocate exactly this. With async = false only tensors of a GPU are copied, one at a
  /// time.
  static layout::Footprint footprint(std::int64_t bytes);

 private:
  void write(Order& order, const std::vector<TensorBox>& boxes, double stall_s);
  void finish();

  WriterOptions options_;
  std::shared_ptr<comm::Group> group_;
  std::unique_ptr<HostCopy> copy_;
  // One save at a time: start() makes its order and its thread, finish() joins the thread and takes its result.
  std::thread thread_;
  std::atomic<bool> done_ = true;
  std::optional<Saved> result_;
  std::exception_ptr error_;
  double last_duration_s_ = 0;
};

/// Reads a checkpoint, with any layout. Each part of a box's data is compared with its hash when it is first used, and
/// only parts that are used are read. One thread at a time.
class Reader : public Checkpoint {
 public:
  using Checkpoint::Checkpoint;
  Reader(const Reader&) = delete;
  Reader& operator=(const Reader&) = delete;

  /// Writes a box of the tensor to `out`, which is contiguous, has box.numel() elements in row-major order (any shape)
  /// and any dtype, and is on any device; values are converted. Throws Error for a tensor that does not exist and for
  /// data that is damaged; a box that does not fit is a caller's bug.
  void read(const std::string& tensor, const layout::Box& box, const at::Tensor& out);

 private:
  void check(const std::string& tensor, const BoxEntry& saved, const layout::Box& inside);

  std::map<std::string, std::unique_ptr<SafetensorsFile>> files_;
  std::map<std::string, std::vector<bool>> checked_;  // by key: pieces whose hash is verified
};

/// A model's parameters from a checkpoint: record "x" is its tensor "model/x".
class RecordSource : public layout::Source {
 public:
  /// The reader must outlive it.
  explicit RecordSource(Reader& reader, std::string prefix = "model/");
  /// Adds a fault for each record that is missing or has another shape.
  void check(const std::vector<const layout::Param*>& params, Diagnostics& diagnostics) const;
  bool has(const layout::Param& param) const override;
  void fill(const layout::Param& param, const layout::Box& box, const at::Tensor& out) override;

 private:
  Reader& reader_;
  std::string prefix_;
};

/// verify_share() of all ranks of a group, which is called by all and gives each all faults. Returns
/// Verdict::is_readable.
bool verify(const std::filesystem::path& path, Depth depth, Diagnostics& faults, comm::Group* group = nullptr);

/// The outcome of a search.
struct Newest {
  std::optional<std::filesystem::path> path;  ///< nothing: there is no valid one
  std::int64_t step = 0;
  std::vector<Diagnostic> skipped;             ///< newer ones, each with what is wrong with it; for warnings
  std::vector<std::filesystem::path> damaged;  ///< their folders
};
/// The newest valid checkpoint of a folder (which need not exist). `latest` is not used: it may be older or damaged.
/// Throws Error when the folder or one of the newer checkpoints cannot be read: it may be undamaged, and an older one
/// must not take its place. With a group it is a collective: all ranks find, or throw, the same.
Newest newest(const std::filesystem::path& folder, Depth depth, comm::Group* group = nullptr);

}  // namespace checkpoint
CAPSTAN_END_NAMESPACE
