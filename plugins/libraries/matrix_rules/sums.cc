#include "sums.h"

#include <ATen/ATen.h>
#include <capstan/base/error.h>
#include <capstan/base/text.h>

#include <algorithm>
#include <functional>
#include <string>
#include <utility>

namespace capstan::matrix_rules {
namespace {

const char* const summed_label = "sums over records";

layout::Shape shape_of(const layout::Param& record, const Kept& keeps) {
  layout::Shape shape;
  for (const auto dim : keeps) shape.push_back(record.shape[dim]);
  return shape;
}

at::Tensor view_of(const at::Tensor& memory, std::int64_t begin, const layout::Shape& shape) {
  return memory.narrow(0, begin, layout::numel(shape)).view(shape);
}

// The dimensions over which a sum is taken.
std::vector<std::int64_t> summed_dims(const layout::Param& record, const Kept& keeps) {
  std::vector<std::int64_t> dims;
  for (std::size_t d = 0; d < record.shape.size(); ++d) {
    if (std::find(keeps.begin(), keeps.end(), d) == keeps.end()) dims.push_back(static_cast<std::int64_t>(d));
  }
  return dims;
}

void check_kept(const layout::Param& record, const Kept& keeps) {
  const bool ascends = std::adjacent_find(keeps.begin(), keeps.end(), std::greater_equal<>()) == keeps.end();
  if (ascends && (keeps.empty() || keeps.back() < record.shape.size())) return;
  std::vector<std::string> names;
  for (const auto dim : keeps) names.push_back(std::to_string(dim));
  throw Error(cat("a sum or a state of '", record.name, "', which has ", record.shape.size(),
                  " dimensions, keeps dimensions ", join(names)),
              "name dimensions that the record has, from 0 and ascending");
}

// One of the ranks that have a box measures it: those with equal boxes share the records out.
bool measures(const optimizer::SharedRecord& shared, int position, std::size_t number) {
  const auto& mine = shared.boxes[static_cast<std::size_t>(position)];
  if (mine.empty()) return false;
  const auto holders = std::count(shared.boxes.begin(), shared.boxes.end(), mine);
  const auto before = std::count(shared.boxes.begin(), shared.boxes.begin() + position, mine);
  return before == static_cast<std::int64_t>(number) % holders;
}

}  // namespace

SumUpdate::SumUpdate(SummingRule& rule, const optimizer::Sharing& sharing)
    : rule_(rule),
      master_(sharing.master),
      dtype_(sharing.master == at::kDouble ? at::kDouble : at::kFloat),
      device_(sharing.device) {
  for (const auto& shared : sharing.records) add(shared, sharing.position);
  std::size_t next = 0;
  for (const auto& record : records_) {
    first_state_.push_back(next);
    if (!record.box.empty()) next += record.states.size();
  }
}

void SumUpdate::add(const optimizer::SharedRecord& shared, int position) {
  const auto& param = *shared.record;
  auto sums = rule_.sums(param);
  if (sums.empty()) return;
  SummedRecord record{shared, shared.boxes[static_cast<std::size_t>(position)]};
  record.is_measured = measures(shared, position, records_.size());
  for (std::size_t pass = 0; pass < sums.size(); ++pass) {
    if (pass == elements_.size()) elements_.push_back(0);
    auto& places = record.places.emplace_back();
    for (const auto& keeps : sums[pass]) {
      check_kept(param, keeps);
      places.push_back(elements_[pass]);
      elements_[pass] += layout::numel(shape_of(param, keeps));
    }
  }
  record.sums = std::move(sums);
  record.states = rule_.record_states(param);
  for (const auto& state : record.states) check_kept(param, state.keeps);
  const auto first =
      std::find_if(shared.boxes.begin(), shared.boxes.end(), [](const auto& box) { return !box.empty(); });
  record.is_saved = first - shared.boxes.begin() == position;
  any_on_host_ = any_on_host_ || (shared.on_host && !record.box.empty());
  records_.push_back(std::move(record));
}

bool SumUpdate::takes(const layout::Param& record) const {
  return std::any_of(records_.begin(), records_.end(),
                     [&](const SummedRecord& one) { return one.shared.record == &record && !one.box.empty(); });
}

std::vector<optimizer::JointState> SumUpdate::states() const {
  std::vector<optimizer::JointState> list;
  for (const auto& record : records_) {
    if (record.box.empty()) continue;
    for (const auto& state : record.states) {
      auto shape = shape_of(*record.shared.record, state.keeps);
      if (shape.empty()) shape = {1};
      auto box = layout::Box::whole(shape);
      list.push_back({state.name,
                      dtype_,
                      record.shared.on_host,
                      {{record.shared.record, std::move(shape), std::move(box), record.is_saved}}});
    }
  }
  return list;
}

optimizer::JointCost SumUpdate::cost() const {
  const auto size = static_cast<std::int64_t>(c10::elementSize(dtype_));
  optimizer::JointCost cost;
  std::int64_t sums = 0, on_device = 0, on_host = 0;
  for (const auto elements : elements_) {
    sums += elements * size;
    if (elements > 0) cost.calls.push_back({"all-reduce", elements * size, 1});
  }
  for (const auto& record : records_) {
    auto& most = record.shared.on_host ? on_host : on_device;
    most = std::max(most, record.box.numel());
  }
  const auto working = rule_.working_copies() * static_cast<std::int64_t>(c10::elementSize(master_));
  cost.memory.push_back({summed_label, sums + on_device * working, c10::DeviceTypeName(device_, true), "update"});
  if (any_on_host_ && device_ != c10::DeviceType::CPU)
    cost.memory.push_back({summed_label, sums + on_host * working, "host", "update"});
  return cost;
}

SummedSlice SumUpdate::slice_of(std::size_t number, optimizer::JointStep& step, const std::vector<Memory>& passes,
                                const std::vector<at::Tensor>& states) const {
  const auto& one = records_[number];
  const auto& param = *one.shared.record;
  SummedSlice slice{step.slice(one.shared.slice)};
  if (slice.grad.defined() && !rule_.is_fused()) slice.grad = slice.grad.to(slice.master.scalar_type());
  for (std::size_t pass = 0; pass < std::min(passes.size(), one.sums.size()); ++pass) {
    const auto& memory = one.shared.on_host ? passes[pass].on_host : passes[pass].on_device;
    auto& list = slice.sums.emplace_back();
    for (std::size_t i = 0; i < one.sums[pass].size(); ++i)
      list.push_back(view_of(memory, one.places[pass][i], shape_of(param, one.sums[pass][i])));
  }
  for (std::size_t i = 0; i < one.states.size(); ++i)
    slice.record_state.push_back(view_of(states[first_state_[number] + i], 0, shape_of(param, one.states[i].keeps)));
  return slice;
}

void SumUpdate::measure(std::size_t pass, const SummedRecord& one, const SummedSlice& slice, optimizer::JointStep& step,
                        const at::Tensor& memory) const {
  const auto& param = *one.shared.record;
  const auto terms = rule_.terms(pass, slice, step.update(one.shared.on_host));
  if (terms.size() != one.sums[pass].size()) {
    throw Error(cat("terms() of '", param.name, "' gives ", terms.size(), " tensors in pass ", pass,
                    ", where sums() has ", one.sums[pass].size()),
                "give a tensor for each sum");
  }
  for (std::size_t i = 0; i < terms.size(); ++i) {
    const auto& keeps = one.sums[pass][i];
    auto to = view_of(memory, one.places[pass][i], shape_of(param, keeps));
    for (std::size_t k = 0; k < keeps.size(); ++k)
      to = to.narrow(static_cast<std::int64_t>(k), one.box.offset[keeps[k]], one.box.size[keeps[k]]);
    const auto dims = summed_dims(param, keeps);
    const auto values = terms[i].view(one.box.size);
    if (dims.empty()) {
      to.copy_(values);
    } else {
      at::sum_out(to, values, dims, /*keepdim=*/false, dtype_);
    }
  }
}

// Adds up what all ranks have measured.
SumUpdate::Memory SumUpdate::summed(const at::Tensor& memory, optimizer::JointStep& step) const {
  if (memory.numel() > 0) step.group().all_reduce(memory, comm::ReduceOp::sum, summed_label);
  const auto& skip = step.update(/*on_host=*/false).skip;
  if (skip.defined()) memory.masked_fill_(skip.ne(0), 0);
  return {memory, any_on_host_ ? memory.to(at::kCPU) : at::Tensor()};
}

void SumUpdate::run(optimizer::JointStep& step, const std::vector<at::Tensor>& states) {
  std::vector<Memory> passes;
  for (std::size_t pass = 0; pass < elements_.size(); ++pass) {
    const auto memory = at::zeros({elements_[pass]}, at::TensorOptions().dtype(dtype_).device(step.group().device()));
    for (std::size_t i = 0; i < records_.size(); ++i) {
      const auto& one = records_[i];
      if (one.is_measured && pass < one.sums.size() && !one.sums[pass].empty())
        measure(pass, one, slice_of(i, step, passes, states), step, memory);
    }
    passes.push_back(summed(memory, step));
    for (std::size_t i = 0; i < records_.size(); ++i) {
      if (records_[i].box.empty() || pass >= records_[i].sums.size()) continue;
      auto slice = slice_of(i, step, passes, states);
      rule_.summed(pass, slice, step.update(records_[i].shared.on_host));
    }
  }
  for (std::size_t i = 0; i < records_.size(); ++i) {
    if (records_[i].box.empty()) continue;
    auto slice = slice_of(i, step, passes, states);
    rule_.finish(slice, step.update(records_[i].shared.on_host));
  }
}

}  // namespace capstan::matrix_rules
