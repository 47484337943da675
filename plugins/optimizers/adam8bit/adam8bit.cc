#include "adam8bit.h"

#include <ATen/ATen.h>
#include <capstan/adamw/adamw.h>
#include <capstan/base/error.h>

#include <algorithm>
#include <utility>

#include "blocks.h"
#include "operator.h"

namespace adam8bit {

using namespace capstan;
using optimizer::Slice;

namespace {

// What one call updates: tensors of the same dtypes, with copies or without.
struct Alike {
  c10::ScalarType master, gradient;
  std::optional<c10::ScalarType> copy;
  Slices slices;
};

void add(std::vector<Alike>& all, const Slice& slice) {
  // A GPU's kernel has not all pairs of dtypes; ATen converts for the others.
  const bool as_is = !slice.master.is_cuda() || takes(slice.master, slice.grad, slice.copy);
  const auto master = slice.master.scalar_type(), gradient = as_is ? slice.grad.scalar_type() : master;
  const bool copies = as_is && slice.copy.defined();
  const auto copy = copies ? std::optional(slice.copy.scalar_type()) : std::nullopt;
  auto found = std::find_if(all.begin(), all.end(), [&](const Alike& one) {
    return one.master == master && one.gradient == gradient && one.copy == copy;
  });
  if (found == all.end()) found = all.insert(all.end(), {master, gradient, copy, {}});
  auto& slices = found->slices;
  slices.masters.push_back(slice.master);
  slices.gradients.push_back(slice.grad.to(gradient));
  slices.states.insert(slices.states.end(), slice.state.begin(), slice.state.end());
  if (copies) slices.copies.push_back(slice.copy);
  slices.lr.push_back(slice.lr);
  slices.weight_decay.push_back(slice.weight_decay);
}

Moments moments_in(const std::vector<at::Tensor>& state) { return moments_of(state[0], state[1], state[2], state[3]); }

}  // namespace

void Adam8bitOptions::describe(config::OptionTable<Adam8bitOptions>& t) {
  t.add("betas", &Adam8bitOptions::betas).doc("AdamW's two decay rates, each in [0, 1)");
  t.add("eps", &Adam8bitOptions::eps).above(0).doc("AdamW's epsilon");
}

bool is_in_8_bits(const layout::Param& record) {
  return record.shape.size() > 1 && record.usage != layout::Usage::table && record.numel() >= least_elements;
}

Adam8bit::Adam8bit(config::Options<Adam8bitOptions> options) : options_(std::move(options)) {
  const auto& betas = options_->betas;
  if (betas.size() != 2 || betas[0] < 0 || betas[0] >= 1 || betas[1] < 0 || betas[1] >= 1) {
    throw Error("optimizer.betas is " + config::value_text(betas), "give two numbers in [0, 1), such as [0.9, 0.999]",
                options_.where(&Adam8bitOptions::betas));
  }
  floats_ = optimizer::adamw({.betas = {betas[0], betas[1]}, .eps = options_->eps});
}

std::vector<optimizer::StateSpec> Adam8bit::states(const layout::Param& record) const {
  if (!is_in_8_bits(record)) return floats_->states(record);
  return {{"exp_avg.codes", at::kByte, 1},
          {"exp_avg.scales", at::kFloat, block},
          {"exp_avg_sq.codes", at::kByte, 1},
          {"exp_avg_sq.scales", at::kFloat, block}};
}

void Adam8bit::apply(std::vector<Slice>& slices, const optimizer::Update& update) {
  std::vector<Slice> in_floats;
  std::vector<Alike> all;
  for (const auto& slice : slices) {
    CAPSTAN_ASSERT(slice.record != nullptr);
    if (is_in_8_bits(*slice.record)) {
      add(all, slice);
    } else {
      in_floats.push_back(slice);
    }
  }
  if (!in_floats.empty()) floats_->apply(in_floats, update);
  const auto& betas = options_->betas;
  const Settings by{static_cast<float>(betas[0]), static_cast<float>(betas[1]), options_->eps};
  for (const auto& alike : all) adam8bit::update(alike.slices, by, {update.count, update.grad_scale, update.skip});
  for (const auto& slice : slices) {
    if (is_in_8_bits(*slice.record) && slice.master.is_cuda() && slice.copy.defined() &&
        !takes(slice.master, slice.grad, slice.copy)) {
      auto copy = slice.copy;
      copy.copy_(slice.master);
    }
  }
}

std::vector<at::Tensor> Adam8bit::unpacked(const layout::Param& record, const std::vector<at::Tensor>& state) const {
  if (!is_in_8_bits(record)) return {state[0].to(at::kFloat), state[1].to(at::kFloat)};
  const auto n = state[0].numel();
  const auto options = at::TensorOptions(at::kCPU).dtype(at::kFloat);
  std::vector<at::Tensor> values{at::empty({n}, options), at::empty({n}, options)};
  decode(moments_in(state), n, values[0].data_ptr<float>(), values[1].data_ptr<float>());
  return values;
}

void Adam8bit::pack(const layout::Param& record, const std::vector<at::Tensor>& values,
                    const std::vector<at::Tensor>& state) const {
  if (!is_in_8_bits(record)) {
    for (std::size_t i = 0; i < values.size(); ++i) state[i].copy_(values[i]);
    return;
  }
  encode(moments_in(state), values[0].numel(), values[0].const_data_ptr<float>(), values[1].const_data_ptr<float>());
}

}  // namespace adam8bit

CAPSTAN_OPTIMIZER("adam8bit", "1.0", "AdamW with its moments in 8 bits", adam8bit::Adam8bit, adam8bit::Adam8bitOptions)
