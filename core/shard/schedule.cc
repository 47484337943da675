#include "shard/schedule.h"

namespace capstan::shard {

using strategy::BackwardPrefetch;

std::optional<std::size_t> Schedule::prefetch_in_forward(std::size_t run) const {
  if (!policy_.forward_prefetch || run + 1 == runs_.size()) return {};
  return run + 1;
}

std::optional<std::size_t> Schedule::previous(std::size_t run) const {
  // Backward ends at the first run that has something to train.
  if (run == 0 || !runs_[run - 1].trainable()) return {};
  return run - 1;
}

std::optional<std::size_t> Schedule::prefetch_before_backward(std::size_t run) const {
  return policy_.backward_prefetch == BackwardPrefetch::pre ? previous(run) : std::nullopt;
}

std::optional<std::size_t> Schedule::prefetch_after_backward(std::size_t run) const {
  return policy_.backward_prefetch == BackwardPrefetch::post ? previous(run) : std::nullopt;
}

bool Schedule::stays_gathered(std::size_t run, bool with_grad) const {
  if (!with_grad || !runs_[run].trainable()) return false;
  // What a codec keeps is decoded for one run at a time, whatever stays gathered.
  return run + 1 == runs_.size() || (!policy_.reshard_after_forward && !runs_[run].packs);
}

}  // namespace capstan::shard
