#pragma once
#include <ATen/core/Tensor.h>
#include <capstan/base/export.h>
#include <capstan/comm/group.h>

#include <memory>
#include <string>
#include <vector>

CAPSTAN_BEGIN_NAMESPACE
namespace shard {

/// The shards of a group's ranks in each other's reach: all ranks on one host, whose GPUs read each other's memory, or
/// threads of one process. A gather is then copies, which a GPU's copy engines make while its multiprocessors compute;
/// a collective's kernels would take some of them from the products. No kernel of NCCL runs, and no rank waits for
/// another: whoever writes a shard must let all ranks know (Shared::note_write, await_writes).
class PeerShards {
 public:
  /// A collective over `group`. `shard`: contiguous, its memory is kept for this object's life, and what is in it is
  /// lost. Null, on all ranks, where one of them cannot read another's; nothing is wrong then.
  static std::unique_ptr<PeerShards> open(comm::Group& group, const at::Tensor& shard, const std::string& label);

  /// What the group's all_gather(out, in) does, by copies on the current stream; `in` are parts of the shard.
  void gather(const std::vector<at::Tensor>& out, const std::vector<at::Tensor>& in) const;

 private:
  PeerShards(std::vector<at::Tensor> shards, int rank) : shards_(std::move(shards)), rank_(rank) {}

  std::vector<at::Tensor> shards_;  ///< by rank in the group
  int rank_;
};

}  // namespace shard
CAPSTAN_END_NAMESPACE
