#include "shard/reducer.h"

#include <ATen/core/grad_mode.h>
#include <capstan/base/error.h>
#include <capstan/base/text.h>
#include "ops/norm.h"

#include <algorithm>
#include <optional>

#include "shard/packing.h"

namespace capstan::shard {

Reducer::Reducer(BucketParameters& parameters, Shared& shared, const GroupOf& group_of)
    : parameters_(parameters),
      plan_(parameters.plan()),
      shared_(shared),
      label_(cat(shared.options.owner(), " ", parameters.plan().name, ", backward")),
      reached_(parameters.plan().weights.size(), false) {
  if (plan_.copies > 1) copies_ = group_of({layout::Axis::replicate}, 0);
  // Its name includes its size, since it must not be the layers' own group on these axes: that is for another stream.
  for (const auto& partial : plan_.gradients.partials) {
    const auto& [weight, record] = partial.records.front();
    const auto& layout = plan_.weights[weight].weight->records()[record].compute;
    partial_groups_.push_back(partial.over_stages ? shared.options.holders(partial.axes, layout)
                                                  : group_of(partial.axes, partial.ranks));
  }
}

void Reducer::allocate() {
  if (const auto* full = plan_.buffer(Purpose::gradient_full)) full_ = shard::allocate(*full, shared_.device());
  if (const auto* shard = plan_.buffer(Purpose::gradient_shard)) shard_ = shard::allocate(*shard, shared_.device());
  autograd_.resize(plan_.gradients.autograd ? plan_.weights.size() : 0);
  for (std::size_t i = 0; full_.defined() && i < plan_.weights.size(); ++i) {
    const auto& planned = plan_.weights[i];
    parts_of_full_.push_back(planned.of_full(full_).view_as(parameters_.full().leaf(i)));
  }
}

void Reducer::add_held(HeldMemory& memory) const {
  memory.add(Purpose::gradient_full, full_);
  memory.add(Purpose::gradient_shard, shard_);
  for (const auto& gradient : autograd_) memory.add(Purpose::gradient_autograd, gradient);
}

void Reducer::reduce(const Reduction& how) {
  if (!plan_.trainable) return;
  const at::NoGradGuard no_grad;
  reduced_ = true;
  if (plan_.gradients.only_looked_up()) {
    // Its rows are still to come.
    if (!how.accumulates) return;
    if (how.first) full_.zero_();
  } else if (how.accumulates) {
    accumulate(how.first);
  }
  if (!how.sums && (!how.last || plan_.gradients.partials.empty())) return;
  shared_.apart([this, how] {
    const at::NoGradGuard no_grad_later;
    if (how.sums) sum(how);
    if (how.last) sum_partials(false);
  });
}

void Reducer::sum_over_stages() {
  const at::NoGradGuard no_grad;
  if (plan_.trainable) sum_partials(true);
}

// The leaves' gradients move into the full buffer; a weight that the loss does not reach has none, which counts as
// zero.
void Reducer::accumulate(bool first) {
  Moves moves;
  for (std::size_t i = 0; i < plan_.weights.size(); ++i) {
    const auto& planned = plan_.weights[i];
    const auto& leaf = parameters_.full().leaf(i);
    auto& grad = leaf.mutable_grad();
    reached_[i] = reached_[i] || grad.defined();
    if (plan_.gradients.autograd) {
      autograd_[i] = grad.defined() ? grad.contiguous().view(-1) : at::zeros({planned.sharding.numel}, leaf.options());
    } else {
      const auto& into = parts_of_full_[i];
      if (grad.defined()) {
        moves.add(into, grad.contiguous());
      } else if (first) {
        into.zero_();
      }
    }
    grad.reset();
  }
  moves.run(first);
}

// A weight's flat gradient to be summed now; undefined: zero.
at::Tensor Reducer::source(std::size_t i) {
  const auto& planned = plan_.weights[i];
  if (is_accumulated()) return planned.of_full(full_);
  auto& grad = parameters_.full().leaf(i).mutable_grad();
  if (!grad.defined()) return {};
  reached_[i] = true;
  auto flat = grad.contiguous().view(-1);
  held_.push_back(flat);
  grad.reset();
  return flat;
}

void Reducer::sum(const Reduction& how) {
  const bool write = is_accumulated() || how.first;
  {
    const SideStream::Use on_stream(shared_.streams.reduce);
    switch (plan_.gradients.sum_by) {
      case SumBy::nothing:
        break;
      case SumBy::reduce_scatter:
      case SumBy::reduce_scatter_in_place:
      case SumBy::exchange:
        sum_shard(how, write);
        break;
      case SumBy::reduce_scatter_all_gather:
        sum_in_order(write);
        break;
      case SumBy::all_reduce:
        sum_full(how, write);
        break;
    }
    done_.record(shared_.device());
  }
  if (how.last && copies_) sum_copies(how);
}

void Reducer::sum_shard(const Reduction& how, bool write) {
  const auto& gradients = plan_.gradients;
  if (gradients.on_host) shard_ = shared_.offload.staging(plan_, gradients.offload_dtype(write, how.last));
  const bool direct = (write || gradients.on_host) && shared_.options.precision.reduce == shard_.scalar_type();
  const auto out = direct ? shard_ : shared_.sum_staging.narrow(0, 0, plan_.shard_elements);
  if (gradients.sum_by == SumBy::reduce_scatter_in_place) {
    reduce_in_place(out);
  } else {
    reduce_staged(how, out);
  }
  if (gradients.on_host && !write) {
    add_earlier(out);
  } else if (!direct) {
    Moves{{shard_}, {out}}.run(write);
  }
}

// Adds to the sum of earlier micro-steps that was sent to the host, as if it had stayed here.
void Reducer::add_earlier(const at::Tensor& out) {
  const auto earlier = shared_.offload.earlier(plan_);
  if (out.is_same(shard_)) {
    shard_.add_(earlier);
  } else {
    shard_.copy_(earlier);
    shard_.add_(out);
  }
  shared_.offload.release(plan_);
}

// Every record's shards are read in place. Autograd's gradients have no padding after them, and a weight's shards may
// not be contiguous: those weights are packed.
void Reducer::reduce_in_place(const at::Tensor& sum) {
  std::vector<at::Tensor> out, in;
  std::int64_t used = 0;
  for (std::size_t i = 0; i < plan_.weights.size(); ++i) {
    const auto& planned = plan_.weights[i];
    auto from = source(i);
    // Only the plan decides: every rank lists the same calls, also one whose loss does not reach the weight.
    if (is_accumulated() ? planned.sharding.in_place : planned.sharding.even) {
      if (is_accumulated()) from = planned.padded_of_full(full_);
      if (!from.defined()) from = at::zeros({planned.sharding.numel}, sum.options());
      std::int64_t end = 0;
      for (const auto& shard : planned.sharding.of(0)) {
        const auto stride = planned.sharding.strides[shard.record];
        if (stride == 0) continue;
        in.push_back(from.narrow(0, shard.in_full, stride * plan_.ranks));
        out.push_back(sum.narrow(0, planned.shard_offset + shard.in_shard, stride));
        end = shard.in_shard + stride;
      }
      // Staging and new memory hold anything, and a slice's padding is zero.
      sum.narrow(0, planned.shard_offset + end, planned.sharding.shard_elements - end).zero_();
      continue;
    }
    const auto size = planned.sharding.shard_elements;
    const auto staged = shared_.reduce_staging.narrow(0, used, size * plan_.ranks);
    Moves moves;
    for (int r = 0; r < plan_.ranks; ++r) pack_weight(planned, r, from, staged.narrow(0, r * size, size), moves);
    moves.run(true);
    in.push_back(staged);
    out.push_back(sum.narrow(0, planned.shard_offset, size));
    used += size * plan_.ranks;
  }
  parameters_.group().reduce_scatter(out, in, "reduce-scatter " + label_);
  read_.record(shared_.device());
}

// One all-reduce over all the full weights: in their own buffer if dtypes allow.
void Reducer::sum_full(const Reduction& how, bool write) {
  const auto& precision = shared_.options.precision;
  const bool in_place = write && precision.reduce == precision.master;
  const auto flat = in_place ? full_ : shared_.reduce_staging.narrow(0, 0, plan_.full_elements);
  if (!is_accumulated() || !in_place) {
    Moves moves;
    if (!in_place) flat.zero_();
    for (std::size_t i = 0; i < plan_.weights.size(); ++i) {
      const auto& planned = plan_.weights[i];
      const auto from = source(i);
      const auto into = planned.of_full(flat);
      if (from.defined()) {
        moves.add(into, from);
      } else {
        into.zero_();
      }
    }
    moves.run(true);
    read_.record(shared_.device());
  }
  auto& group = parameters_.group();
  if (group.size() > 1 && !overridden(layout::Axis::dp, how, Flat::full, flat, flat, group))
    group.all_reduce(flat, comm::ReduceOp::sum, "all-reduce " + label_);
  if (!in_place) Moves{{full_}, {flat}}.run(write);
}

// Hybrid sums once a step, after all sums inside the copy.
void Reducer::sum_copies(const Reduction& how) {
  const SideStream::Use on_stream(shared_.streams.replicate, false);
  done_.wait(shared_.device());
  const auto& sum = is_sharded() ? shard_ : full_;
  const auto reduce = shared_.options.precision.reduce;
  const auto moved = sum.to(reduce);
  const auto flat = is_sharded() ? Flat::shard : Flat::full;
  if (!overridden(layout::Axis::replicate, how, flat, moved, moved, *copies_))
    copies_->all_reduce(moved, comm::ReduceOp::sum, cat("all-reduce of copies ", label_));
  if (!moved.is_same(sum)) sum.copy_(moved);
  done_.record(shared_.device());
}

// A record's gradient in the stored sum.
at::Tensor Reducer::summed(const PartialRecord& partial) const {
  const auto position = is_sharded() ? std::optional(parameters_.position()) : std::nullopt;
  return plan_.weights[partial.weight].sharding.record_in(slice(partial.weight), partial.record, position);
}

// This happens once a step. The ranks of the sum hold the same boxes, and shard them alike over their data ranks.
void Reducer::sum_partials(bool over_stages) {
  const auto& partials = plan_.gradients.partials;
  const auto is_one = [&](const PartialSum& sum) { return sum.over_stages == over_stages; };
  if (std::none_of(partials.begin(), partials.end(), is_one)) return;
  const SideStream::Use on_stream(shared_.streams.reduce);
  done_.wait(shared_.device());
  for (std::size_t i = 0; i < partials.size(); ++i) {
    if (!is_one(partials[i])) continue;
    Moves in, out;
    std::int64_t elements = 0;
    for (const auto& record : plan_.gradients.partials[i].records) {
      const auto part = summed(record);
      const auto staged = shared_.partial_staging.narrow(0, elements, part.numel());
      if (part.numel() == 0) continue;
      in.add(staged, part);
      out.add(part, staged);
      elements += part.numel();
    }
    if (elements == 0) continue;
    in.run(true);
    partial_groups_[i]->all_reduce(shared_.partial_staging.narrow(0, 0, elements), comm::ReduceOp::sum,
                                   cat("all-reduce of parts ", label_));
    out.run(true);
  }
  done_.record(shared_.device());
}

void Reducer::measure(const at::Tensor& out, const std::vector<at::Tensor>& parts) {
  const SideStream::Use on_stream(shared_.streams.reduce);
  done_.wait(shared_.device());
  ops::squared_norms(out, parts);
  done_.record(shared_.device());
}

bool Reducer::overridden(layout::Axis axis, const Reduction& how, Flat flat, const at::Tensor& gradient,
                         const at::Tensor& out, comm::Group& group) {
  const auto found = shared_.options.reduce_overrides.find(axis);
  if (found == shared_.options.reduce_overrides.end()) return false;
  strategy::Bucket bucket{plan_.name,     gradient, out, group, parts_of(plan_, flat, parameters_.position()),
                          how.micro_step, how.last, {}};
  found->second(bucket);
  return true;
}

void Reducer::offload() { shared_.offload.send(plan_, shard_, done_); }

void Reducer::free_inputs() {
  if (held_.empty()) return;
  read_.wait(shared_.device());
  held_.clear();
}

void Reducer::finish() {
  free_inputs();
  done_.wait(shared_.device());
}

at::Tensor Reducer::slice(std::size_t i) const {
  const auto& planned = plan_.weights[i];
  if (is_sharded()) return planned.of_shard(shard_);
  return plan_.gradients.autograd ? autograd_[i] : planned.padded_of_full(full_);
}

at::Tensor Reducer::owned(std::size_t i, const RecordShard& shard) const {
  const auto all = slice(i);
  return all.narrow(0, is_sharded() ? shard.in_shard : shard.in_full, shard.numel);
}

}  // namespace capstan::shard
