#pragma once
// What ranks compute that each hold a part of a vocabulary's matrix.
#include <ATen/ATen.h>
#include <capstan/comm/communicator.h>
#include <capstan/ops/cross_entropy.h>
#include <capstan/strategy_parts/collectives.h>
#include <capstan_catch.h>

#include <cmath>
#include <mutex>
#include <numeric>
#include <vector>

namespace capstan::testing {

/// On ranks in this process, learn(part, piece) gives {value, gradient of hidden, gradient of the weight's piece}. Put
/// together: the value, which must have the same bits on all ranks, the sum of the parts of hidden's gradient, and the
/// pieces of the weight's side by side.
template <class Learn>
std::vector<at::Tensor> on_split_vocabulary(const at::Tensor& hidden, const at::Tensor& weight, int ranks,
                                            const Learn& learn) {
  std::vector<at::Tensor> all{{}, at::zeros_like(hidden), at::full_like(weight, std::nan(""))};
  std::mutex mutex;
  bool same = true;
  comm::run_in_process(ranks, [&](comm::Communicator& communicator) {
    std::vector<int> everyone(static_cast<std::size_t>(ranks));
    std::iota(everyone.begin(), everyone.end(), 0);
    const auto group = communicator.group("test", everyone, at::kCPU);
    const auto piece = ops::piece_of(weight.size(0), ranks, group->rank());
    const std::vector<at::Tensor> found = learn(ops::VocabularyPart{group, piece.begin, "test"}, piece);
    const std::lock_guard lock(mutex);
    same = same && (!all[0].defined() || at::equal(all[0], found[0]));
    all[0] = found[0];
    all[1] += found[1];
    all[2].narrow(0, piece.begin, piece.length).copy_(found[2]);
  });
  CHECK(same);
  return all;
}

}  // namespace capstan::testing
