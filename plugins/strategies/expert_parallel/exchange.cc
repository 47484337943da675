#include "exchange.h"

#include <ATen/ATen.h>
#include <c10/core/Event.h>
#include <c10/core/impl/VirtualGuardImpl.h>
#include <capstan/base/text.h>

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

std::int64_t sum(const Counts& counts) { return std::accumulate(counts.begin(), counts.end(), std::int64_t{0}); }

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

/// How many of `ends`, ascending along their last dimension, are not above each of 0 to n - 1: what each falls into.
at::Tensor found_in(const at::Tensor& ends, std::int64_t n) {
  return at::arange(n, ends.options()).unsqueeze(1).ge(ends.unsqueeze(-2)).sum(-1);
}

// Where `rows` rows, sorted by the rank that they go to, stand once each rank's part has room for all: [rows]. `sent`
// [ranks]: how many go to each.
at::Tensor places_with_room(const at::Tensor& sent, std::int64_t rows) {
  const auto ends = sent.cumsum(0);
  const auto moved = at::arange(sent.size(0), sent.options()) * rows - (ends - sent);
  return at::arange(rows, sent.options()) + moved.index_select(0, found_in(ends, rows));
}

// Each rank's rows come sorted by expert.
Places sorted_by_expert(const Traffic& traffic) {
  const auto& arrived = traffic.arrived;
  const auto rows = sum(traffic.received);
  const auto expert = at::arange(arrived.size(1), arrived.options()).repeat({arrived.size(0)});
  const auto expert_of_row = at::repeat_interleave(expert, arrived.flatten(), /*dim=*/0, /*output_size=*/rows);
  Places places{capstan::ops::group_rows(expert_of_row, arrived.size(1)), {}};
  if (traffic.ids.defined()) places.ids = traffic.ids.index_select(0, places.rows.order);
  return places;
}

}  // namespace

Exchange::Exchange(std::shared_ptr<capstan::comm::Group> group, const std::string& unit, double memory_factor)
    : group_(std::move(group)),
      counts_label_(cat("all-to-all ep ", unit, " experts, counts")),
      ids_label_(cat("all-to-all ep ", unit, " experts, ids")),
      memory_factor_(memory_factor),
      dispatch_(group_, cat("all-to-all ep ", unit, " experts, dispatch")),
      combine_(group_, cat("all-to-all ep ", unit, " experts, combine")) {}

// [ranks, experts of each], rows that this one sends -> [ranks, experts here], rows that it gets.
at::Tensor Exchange::exchanged(const at::Tensor& counts) const {
  auto arrived = at::empty_like(counts);
  const Counts one_each(group_->ranks().size(), 1);
  group_->all_to_all(arrived, counts, one_each, one_each, counts_label_);
  return arrived;
}

// Counts go first: the host waits for them while rows are put in order.
Traffic Exchange::agree(const capstan::nn::Experts::Rows& rows, const at::Tensor& counts, const at::Tensor& ids,
                        at::Tensor& mine) const {
  const auto ranks = static_cast<std::int64_t>(group_->size());
  const auto outgoing = counts.view({ranks, -1});
  Traffic traffic;
  traffic.arrived = exchanged(outgoing);
  if (counts.is_meta()) {
    mine = rows();
    traffic.sent = even(mine.size(0), ranks);
    traffic.received = even(std::llround(std::ceil(static_cast<double>(mine.size(0)) * memory_factor_)), ranks);
    traffic.counts = traffic.arrived.sum(0);
  } else {
    ToHost both(at::stack({outgoing, traffic.arrived}));
    mine = rows();
    traffic.sent = sums_of(both.wait()[0]);
    traffic.received = sums_of(both.wait()[1]);
    traffic.counts = both.wait()[1].sum(0);
  }
  if (ids.defined()) {
    traffic.ids = at::empty({sum(traffic.received)}, ids.options());
    group_->all_to_all(traffic.ids, ids, traffic.received, traffic.sent, ids_label_);
  }
  return traffic;
}

at::Tensor Exchange::with_room(const capstan::nn::Experts::Body& body, const at::Tensor& mine,
                               const at::Tensor& counts) const {
  const auto ranks = static_cast<std::int64_t>(group_->size()), room = mine.size(0);
  const auto sent = counts.view({ranks, -1});
  const auto arrived = exchanged(sent);
  const auto places = places_with_room(sent.sum(1), room);
  const auto outgoing = at::zeros({ranks * room, mine.size(1)}, mine.options()).index_copy_(0, places, mine);
  const Counts equal(group_->ranks().size(), room);
  const auto received = dispatch_(outgoing, equal, equal);
  // What fills up a rank's part is computed by the last expert, and left where it is.
  const auto expert = found_in(arrived.cumsum(1), room).clamp_max_(arrived.size(1) - 1).flatten();
  const auto [order, place, here] = capstan::ops::group_rows(expert, arrived.size(1));
  const auto results = body(capstan::ops::permute_rows(received, order, place), here, {});
  return combine_(capstan::ops::permute_rows(results, place, order), equal, equal).index_select(0, places);
}

at::Tensor Exchange::operator()(const capstan::nn::Experts::Body& body, const capstan::nn::Experts::Rows& rows,
                                const at::Tensor& counts, const at::Tensor& ids,
                                capstan::nn::RecomputeContext* kept) const {
  if (group_->records()) {
    CAPSTAN_ASSERT(!ids.defined());  // what asks for them trains, and experts on several ranks train eagerly
    return with_room(body, rows(), counts);
  }
  capstan::nn::RecomputeContext this_run;
  auto& context = kept ? *kept : this_run;
  at::Tensor mine;
  const auto& traffic = context.once<Traffic>(this, [&] { return agree(rows, counts, ids, mine); });
  if (!mine.defined()) mine = rows();
  // The host queues what finds their places while they are on their way.
  const auto received = dispatch_(mine, traffic.sent, traffic.received);
  const auto& places = context.once<Places>(&dispatch_, [&] { return sorted_by_expert(traffic); });
  const auto &order = places.rows.order, &place = places.rows.place;
  const auto sorted = capstan::ops::permute_rows(received, order, place);
  const auto results = capstan::ops::permute_rows(body(sorted, traffic.counts, places.ids), place, order);
  return combine_(results, traffic.received, traffic.sent);
}

}  // namespace expert_parallel
