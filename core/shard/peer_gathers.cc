// What buckets have of peers' shards.
#include <capstan/base/text.h>

#include "shard/bucket_parameters.h"

namespace capstan::shard {

// What is sent must stay where it is, in this device's memory.
void BucketParameters::open_to_peers() {
  if (!shared_.options.peer_copies || !plan_.gathers() || plan_.on_host || plan_.ranks == 1) return;
  if (plan_.gathers_bytes()) return;  // made for each gather
  if (plan_.packs()) {
    peers_ = PeerShards::open(*group_, packed_, plan_.name);
  } else {
    const bool sends_masters = plan_.parameters.send_from == SendFrom::master;
    if (sends_masters && plan_.parameters.master != plan_.parameters.full) return;
    peers_ = PeerShards::open(*group_, sends_masters ? masters_ : send_copy_, plan_.name);
  }
}

void BucketParameters::all_gather(const std::vector<at::Tensor>& out, const std::vector<at::Tensor>& in) {
  if (!peers_) return group_->all_gather(out, in, label_);
  shared_.await_writes(*group_, cat("updates before ", label_));
  peers_->gather(out, in);
}

}  // namespace capstan::shard
