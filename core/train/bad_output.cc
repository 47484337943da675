#include "train/bad_output.h"

#include <ATen/ATen.h>
#include <capstan/base/text.h>

#include <algorithm>
#include <cmath>
#include <limits>

namespace capstan::train {
namespace {

// Not below the root of the largest number: what is larger is infinite once a norm has squared it, and 16-bit numbers
// are squared as float32.
at::Tensor is_bad(const at::Tensor& x) {
  const bool is_double = x.scalar_type() == at::kDouble;
  const double most = is_double ? std::numeric_limits<double>::max() : std::numeric_limits<float>::max();
  if (x.numel() == 0) return at::zeros({}, x.options().dtype(at::kBool));
  return x.abs().max().to(at::kDouble).lt(std::sqrt(most)).logical_not();  // so nan is bad, too
}

at::Tensor is_bad(const nn::Hidden& hidden) {
  auto bad = is_bad(hidden.states);
  for (const auto& sum : hidden.sums) bad = bad.logical_or(is_bad(sum));
  return bad;
}

// Of each micro-batch and unit, whether its output is bad: [micro-batches, units] bool.
at::Tensor bad_outputs(const session::Session& session, const inference::StepInput& input) {
  const at::NoGradGuard no_grad;
  std::vector<at::Tensor> bad;
  for (const auto& micro : input.micro) {
    const auto batch = inference::training_batch(micro, session.job->seed(), input.step, session.device);
    session.runner->forward(batch, nullptr,
                            [&](std::size_t, const nn::Hidden& hidden) { bad.push_back(is_bad(hidden)); });
  }
  return at::stack(bad).view({static_cast<std::int64_t>(input.micro.size()), -1}).to(at::kCPU);
}

// The largest element of each weight of the unit, over all ranks.
void find_largest(const session::Session& session, const nn::Unit& unit, BadOutput& found) {
  const auto& weights = unit.weights();
  if (weights.empty()) return;
  std::vector<double> largest(weights.size(), 0.0);
  for (const auto& stored : session.engine->stored_boxes()) {
    for (std::size_t w = 0; w < weights.size(); ++w) {
      for (const auto& record : weights[w]->records()) {
        if (&record != stored.record || stored.value.numel() == 0) continue;
        largest[w] = std::max(largest[w], stored.value.abs().max().item<double>());
      }
    }
  }
  const auto on_device = at::tensor(largest, at::kDouble).to(session.device);
  session.world_device->all_reduce(on_device, comm::ReduceOp::max, "all-reduce largest weights");
  const auto [value, which] = on_device.to(at::kCPU).max(0);
  found.weight = weights[static_cast<std::size_t>(which.item<std::int64_t>())]->name();
  found.largest = value.item<double>();
}

}  // namespace

std::string BadOutput::text() const {
  auto text = cat("in forward the first output with nan, inf or numbers too large to square is that of unit ", unit,
                  ", in micro-batch ", micro_batch, " of rank ", rank);
  if (!weight.empty()) text += cat("; the largest of its weights is ", weight, ", up to ", largest);
  return text;
}

std::optional<BadOutput> find_bad_output(const session::Session& session, const inference::StepInput& input) {
  auto& world = *session.world_device;
  const auto bad = bad_outputs(session, input);
  const auto micros = bad.size(0);
  constexpr auto none = std::numeric_limits<std::int64_t>::max();
  // One number that is the smallest for the first unit, of its ranks the first, of that one's micro-batches the first.
  auto first = none;
  const auto places = bad.t().nonzero();  // (unit, micro-batch), in that order
  if (places.size(0) > 0) {
    const auto unit = places[0][0].item<std::int64_t>();
    first = (unit * world.size() + world.rank()) * micros + places[0][1].item<std::int64_t>();
  }
  const auto on_device = at::full({1}, first, at::TensorOptions().dtype(at::kLong).device(session.device));
  world.all_reduce(on_device, comm::ReduceOp::min, "all-reduce the first bad output");
  first = on_device.item<std::int64_t>();
  if (first == none) return {};
  const auto& unit = *session.units[static_cast<std::size_t>(first / micros / world.size())];
  BadOutput found;
  found.unit = unit.name();
  found.rank = static_cast<int>(first / micros % world.size());
  found.micro_batch = first % micros;
  find_largest(session, unit, found);
  return found;
}

}  // namespace capstan::train
