#include "shard/peer_shards.h"

#include <ATen/ATen.h>
#include <capstan/base/error.h>
#include <capstan/base/text.h>

#include "ops/peer_memory.h"

namespace capstan::shard {
namespace {

// So many numbers at the shard's beginning and end tell whether what is read is what was written there: on a machine
// whose PCIe switches redirect such reads they succeed, and bring something else.
constexpr std::int64_t probe = 1024;

bool reads_back(const at::Tensor& shard, int rank) {
  const auto expected = rank + 1;
  const auto numel = std::min<std::int64_t>(probe, shard.numel());
  const at::Tensor first = shard.narrow(0, 0, numel).cpu(), last = shard.narrow(0, shard.numel() - numel, numel).cpu();
  return first.eq(expected).all().item<bool>() && last.eq(expected).all().item<bool>();
}

bool all_agree(comm::Group& group, bool mine, const std::string& label) {
  const auto flag = at::full({1}, mine ? 1 : 0, at::TensorOptions(group.device()).dtype(at::kInt));
  const auto flags = at::empty({group.size()}, flag.options());
  group.all_gather(flags, flag, label);
  return flags.eq(1).all().item<bool>();
}

}  // namespace

std::unique_ptr<PeerShards> PeerShards::open(comm::Group& group, const at::Tensor& shard, const std::string& label) {
  const auto text = cat("addresses of ", label);
  shard.fill_(group.rank() + 1);
  const auto mine = ops::peer_address(shard).to(group.device());
  const auto all = at::empty({group.size(), mine.numel()}, mine.options());
  group.all_gather(all, mine, text);
  const auto addresses = all.cpu();
  std::vector<at::Tensor> shards;
  bool readable = true;
  for (int rank = 0; rank < group.size() && readable; ++rank) {
    shards.push_back(rank == group.rank() ? shard : ops::peer_tensor(addresses[rank], shard));
    readable = shards.back().defined() && reads_back(shards.back(), rank);
  }
  const bool agreed = all_agree(group, readable, text);
  shard.zero_();
  if (!agreed) return nullptr;
  return std::unique_ptr<PeerShards>(new PeerShards(std::move(shards), group.rank()));
}

// Each rank begins with its neighbour's, so that no two read the same one at a time.
void PeerShards::gather(const std::vector<at::Tensor>& out, const std::vector<at::Tensor>& in) const {
  const auto ranks = static_cast<int>(shards_.size());
  const auto begin = shards_[static_cast<std::size_t>(rank_)].storage_offset();
  std::vector<at::Tensor> to;
  std::vector<at::Tensor> from;
  for (int step = 1; step <= ranks; ++step) {
    const auto rank = (rank_ + step) % ranks;
    for (std::size_t i = 0; i < in.size(); ++i) {
      const auto numel = in[i].numel();
      to.push_back(out[i].view({-1}).narrow(0, rank * numel, numel));
      from.push_back(shards_[static_cast<std::size_t>(rank)].narrow(0, in[i].storage_offset() - begin, numel));
    }
  }
  ops::copy_pieces(to, from);
}

}  // namespace capstan::shard
