#include "data/batches.h"

#include <capstan/base/philox.h>
#include <capstan/base/text.h>

#include <algorithm>
#include <numeric>
#include <utility>

namespace capstan::data {

SampleOrder::~SampleOrder() = default;

std::int64_t Plan::samples_per_epoch() const { return std::min(samples, steps_per_epoch * global_batch); }

std::int64_t Plan::epoch_of(std::int64_t step) const {
  CAPSTAN_ASSERT(steps_per_epoch > 0);
  return step / steps_per_epoch;
}

bool Plan::ends_epoch(std::int64_t steps_done) const {
  CAPSTAN_ASSERT(steps_per_epoch > 0);
  return steps_done % steps_per_epoch == 0;
}

double Plan::epoch_progress(std::int64_t steps_done) const {
  CAPSTAN_ASSERT(steps_per_epoch > 0);
  return static_cast<double>(steps_done) / static_cast<double>(steps_per_epoch);
}

std::int64_t Plan::consumed(std::int64_t steps_done) const {
  CAPSTAN_ASSERT(steps_per_epoch > 0);
  const auto epochs = steps_done / steps_per_epoch;
  const auto rest = steps_done % steps_per_epoch;
  return epochs * samples_per_epoch() + std::min(rest * global_batch, samples_per_epoch());
}

Plan make_plan(const PlanRequest& request, Diagnostics& diagnostics) {
  const auto before = diagnostics.size();
  if (request.samples < 1) {
    diagnostics.add(request.where_samples, "the training data has no samples", "name a file with at least one");
  }
  if (request.drop_last && request.samples >= 1 && request.global_batch > request.samples) {
    diagnostics.add(request.where_batch,
                    cat("global_batch ", request.global_batch, " is larger than the ", thousands(request.samples),
                        " training samples, and drop_last leaves an incomplete batch out: an epoch would be empty"),
                    cat("use global_batch = ", request.samples, " or less, or drop_last = false"));
  }
  if (!request.epochs && !request.max_steps) {
    diagnostics.add(request.where_length, "the run has no length", "set max_steps or epochs");
  }
  CAPSTAN_ASSERT(request.global_batch > 0);
  if (diagnostics.size() != before) return {};
  Plan plan{request.samples, request.global_batch, request.samples / request.global_batch, 0, request.shuffle,
            request.seed,    request.order};
  if (!request.drop_last && request.samples % request.global_batch != 0) ++plan.steps_per_epoch;
  plan.steps = request.epochs ? *request.epochs * plan.steps_per_epoch : *request.max_steps;
  if (request.max_steps) plan.steps = std::min(plan.steps, *request.max_steps);
  return plan;
}

std::vector<std::int64_t> epoch_order(std::int64_t samples, std::uint64_t seed, std::int64_t epoch, bool shuffle) {
  __extension__ using Wide = unsigned __int128;
  constexpr std::uint64_t golden = 0x9E3779B97F4A7C15ULL;
  CAPSTAN_ASSERT(samples >= 0 && epoch >= 0);
  std::vector<std::int64_t> order(static_cast<std::size_t>(samples));
  std::iota(order.begin(), order.end(), std::int64_t{0});
  if (!shuffle) return order;
  const std::uint64_t key = mix_bits(mix_bits(seed + golden) ^ (static_cast<std::uint64_t>(epoch) * golden));
  // Fisher-Yates. The draw from [0, i] is the high half of a 64 x 64 bit product: its bias is below i / 2^64.
  for (std::size_t i = order.size(); i-- > 1;) {
    const auto draw = mix_bits(key + golden * static_cast<std::uint64_t>(i));
    const auto j = static_cast<std::size_t>((static_cast<Wide>(draw) * (i + 1)) >> 64U);
    std::swap(order[i], order[j]);
  }
  return order;
}

std::vector<std::int64_t> Batches::samples(std::int64_t epoch, std::int64_t first, std::int64_t count) {
  if (plan_.order) return plan_.order->samples(epoch, first, count);
  if (epoch != epoch_) {
    order_ = epoch_order(plan_.samples, plan_.seed, epoch, plan_.shuffle);
    epoch_ = epoch;
  }
  return {order_.begin() + first, order_.begin() + first + count};
}

std::vector<Slot> Batches::slots(std::int64_t step) {
  CAPSTAN_ASSERT(step >= 0 && plan_.steps_per_epoch > 0);
  std::vector<Slot> slots(static_cast<std::size_t>(plan_.global_batch));
  const auto first = (step % plan_.steps_per_epoch) * plan_.global_batch;
  const auto filled = std::min(plan_.global_batch, plan_.samples - first);
  const auto consumed = plan_.consumed(step);
  const auto drawn = samples(plan_.epoch_of(step), first, filled);
  CAPSTAN_ASSERT(std::ssize(drawn) == filled);
  for (std::int64_t k = 0; k < filled; ++k)
    slots[static_cast<std::size_t>(k)] = {drawn[static_cast<std::size_t>(k)], consumed + k};
  return slots;
}

}  // namespace capstan::data
