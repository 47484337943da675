#include "exchange.h"

#include <ATen/ATen.h>
#include <c10/core/Event.h>
#include <c10/core/impl/VirtualGuardImpl.h>
#include <capstan/base/text.h>
#include <capstan/ops/grouped.h>

#include <cmath>
#include <numeric>
#include <optional>
#include <utility>

namespace expert_parallel {

using capstan::cat;
using Counts = std::vector<std::int64_t>;

namespace {

/// A device tensor on its way to the host: what is queued after it runs while the host waits.
class ToHost {
 public:
  explicit ToHost(const at::Tensor& tensor) : host_(tensor) {
    if (tensor.is_cpu()) return;
    host_ = at::empty(tensor.sizes(), tensor.options().device(at::kCPU).pinned_memory(true));
    host_.copy_(tensor, /*non_blocking=*/true);
    const auto device = tensor.device();
    arrived_.emplace(device.type());
    arrived_->record(c10::impl::VirtualGuardImpl(device.type()).getStream(device));
  }
  const at::Tensor& wait() {
    if (arrived_) arrived_->synchronize();
    return host_;
  }

 private:
  at::Tensor host_;
  std::optional<c10::Event> arrived_;
};

/// The sums of each row of counts [ranks, experts of a rank], on the host.
Counts sums_of(const at::Tensor& counts) {
  const auto sums = counts.sum(1).contiguous();
  const auto* begin = sums.const_data_ptr<std::int64_t>();
  return {begin, begin + sums.numel()};
}

/// `rows` in `parts` equal counts, as far as that goes.
Counts even(std::int64_t rows, std::int64_t parts) {
  Counts counts(static_cast<std::size_t>(parts), rows / parts);
  for (std::int64_t i = 0; i < rows % parts; ++i) ++counts[static_cast<std::size_t>(i)];
  return counts;
}

/// Where rows stand that come sorted by rank, each rank's sorted by expert, when all are sorted by expert. `arrived`
/// [ranks, experts here] on the device.
void sort_by_expert(Traffic& traffic, const at::Tensor& arrived) {
  const auto rows = std::accumulate(traffic.received.begin(), traffic.received.end(), std::int64_t{0});
  const auto expert = at::arange(arrived.size(1), arrived.options()).repeat({arrived.size(0)});
  const auto expert_of_row = at::repeat_interleave(expert, arrived.flatten(), /*dim=*/0, /*output_size=*/rows);
  traffic.order = at::argsort(expert_of_row, /*stable=*/true);
  traffic.back = at::empty_like(traffic.order).scatter_(0, traffic.order, at::arange(rows, traffic.order.options()));
  traffic.counts = arrived.sum(0);
}

}  // namespace

Exchange::Exchange(std::shared_ptr<capstan::comm::Group> group, const std::string& unit, double memory_factor)
    : group_(std::move(group)),
      counts_label_(cat("all-to-all ep ", unit, " experts, counts")),
      ids_label_(cat("all-to-all ep ", unit, " experts, ids")),
      memory_factor_(memory_factor),
      dispatch_(group_, cat("all-to-all ep ", unit, " experts, dispatch")),
      combine_(group_, cat("all-to-all ep ", unit, " experts, combine")) {}

at::Tensor Exchange::operator()(const capstan::nn::Experts::Body& body, const capstan::nn::Experts::Rows& rows,
                                const at::Tensor& counts, const at::Tensor& ids,
                                capstan::nn::RecomputeContext* kept) const {
  at::Tensor mine;
  const auto agree = [&] {
    const auto ranks = static_cast<std::int64_t>(group_->size());
    const auto outgoing = counts.view({ranks, -1});
    const auto arrived = at::empty_like(outgoing);
    const Counts one_each(static_cast<std::size_t>(ranks), 1);
    group_->all_to_all(arrived, outgoing, one_each, one_each, counts_label_);
    Traffic traffic;
    if (counts.is_meta()) {
      mine = rows();
      traffic.sent = even(mine.size(0), ranks);
      traffic.received = even(std::llround(std::ceil(static_cast<double>(mine.size(0)) * memory_factor_)), ranks);
    } else {
      ToHost both(at::stack({outgoing, arrived}));
      mine = rows();
      traffic.sent = sums_of(both.wait()[0]);
      traffic.received = sums_of(both.wait()[1]);
    }
    sort_by_expert(traffic, arrived);
    if (ids.defined()) {
      const auto received = at::empty({traffic.order.size(0)}, ids.options());
      group_->all_to_all(received, ids, traffic.received, traffic.sent, ids_label_);
      traffic.ids = received.index_select(0, traffic.order);
    }
    return traffic;
  };
  capstan::nn::RecomputeContext this_run;
  const auto& traffic = (kept ? *kept : this_run).once<Traffic>(this, agree);
  if (!mine.defined()) mine = rows();
  const auto sorted =
      capstan::ops::permute_rows(dispatch_(mine, traffic.sent, traffic.received), traffic.order, traffic.back);
  const auto results =
      capstan::ops::permute_rows(body(sorted, traffic.counts, traffic.ids), traffic.back, traffic.order);
  return combine_(results, traffic.received, traffic.sent);
}

}  // namespace expert_parallel
