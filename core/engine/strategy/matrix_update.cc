#include "strategy/matrix_update.h"

#include <ATen/ATen.h>

#include <numeric>
#include <utility>

namespace capstan::strategy {
namespace {

const char* const gathered_label = "parts of whole matrices";
const char* const returned_label = "results of whole matrices";

// The scalars of an update, for slices on the device and for those in host memory.
struct Updates {
  optimizer::Update device;
  optimizer::Update host;

  const optimizer::Update& on(bool host_memory) const { return host_memory ? host : device; }
};

// Copies in few launches.
struct Copies {
  std::vector<at::Tensor> to, from;

  void add(const at::Tensor& destination, const at::Tensor& source) {
    to.push_back(destination);
    from.push_back(source.view(destination.sizes()));
  }
  void run() const {
    if (!to.empty()) at::_foreach_copy_(to, from);
  }
};

// One round.
class Round {
 public:
  Round(const MatrixPlan& plan, const MatrixRound& round, comm::Group& group)
      : plan_(plan),
        round_(round),
        group_(group),
        options_(at::TensorOptions().dtype(plan.dtype).device(group.device())) {}

  // `states`: those of its batches, in order.
  void run(const MatrixUpdate::SliceOf& slice_of, const Updates& updates, const std::pair<at::Tensor, bool>* states) {
    matrices_ = at::empty({round_.elements()}, options_);
    gather(slice_of, updates);
    for (const auto& batch : round_.batches) {
      compute(batch, states, updates.device);
      states += batch.states.size();
    }
    give_back();
    call(slice_of, updates, /*begins=*/false);
  }

 private:
  void compute(const WholeBatch& batch, const std::pair<at::Tensor, bool>* states,
               const optimizer::Update& update) const {
    const auto& shape = batch.records.front()->shape;
    const auto value = matrices_.narrow(0, batch.begin, batch.elements)
                           .view({static_cast<std::int64_t>(batch.records.size()), shape[shape.size() - 2], -1});
    std::vector<at::Tensor> here;
    for (std::size_t i = 0; i < batch.states.size(); ++i) here.push_back(states[i].first.to(options_.device()));
    plan_.rule->whole({batch.records, value, here}, update);
    for (std::size_t i = 0; i < here.size(); ++i) {
      if (!here[i].is_same(states[i].first)) states[i].first.copy_(here[i]);
    }
  }

  bool is_mine(const OwnPart& part) const { return part.owner == group_.rank(); }
  // Can the rule read and write it where it is in its matrix?
  bool is_in_place(const OwnPart& part) const {
    return is_mine(part) && part.whole.rect.cols == part.whole.record->shape.back();
  }

  // What crosses, one rank's after the other's.
  struct Crossing {
    at::Tensor out, in;
    std::vector<std::int64_t> out_counts, in_counts;
  };

  // `to_owners`: only what ranks give; else every part comes back.
  Crossing crossing(bool to_owners) const {
    const auto size = static_cast<std::size_t>(group_.size());
    std::vector<std::int64_t> own(size, 0), others(size, 0);
    for (const auto& part : round_.own) {
      if (!is_mine(part) && (part.whole.gives || !to_owners))
        own[static_cast<std::size_t>(part.owner)] += part.elements();
    }
    for (const auto& part : round_.others) {
      if (part.gives || !to_owners) others[static_cast<std::size_t>(part.rank)] += part.rect.numel();
    }
    const auto memory = [&](const std::vector<std::int64_t>& counts) {
      return at::empty({std::accumulate(counts.begin(), counts.end(), std::int64_t{0})}, options_);
    };
    if (to_owners) return {memory(others), memory(own), others, own};
    return {memory(own), memory(others), own, others};
  }

  void exchange(const Crossing& cross, const char* label) {
    if (round_.exchanges) group_.all_to_all(cross.out, cross.in, cross.out_counts, cross.in_counts, label);
  }

  // The next `elements` of a buffer.
  static at::Tensor next(const at::Tensor& buffer, std::int64_t& at, std::int64_t elements) {
    auto part = buffer.narrow(0, at, elements);
    at += elements;
    return part;
  }

  void gather(const MatrixUpdate::SliceOf& slice_of, const Updates& updates) {
    const auto cross = crossing(/*to_owners=*/true);
    std::vector<at::Tensor> there;  // where each part is to be on the device; undefined: another rank gives it
    std::int64_t sent = 0;
    for (const auto& part : round_.own) {
      if (is_mine(part)) {
        there.push_back(part.whole.of(matrices_));
      } else {
        there.push_back(part.whole.gives ? next(cross.in, sent, part.elements()) : at::Tensor());
      }
      parts_.push_back(memory_of(part, there.back()));
    }
    call(slice_of, updates, /*begins=*/true);
    Copies moves;
    for (std::size_t i = 0; i < there.size(); ++i) {
      if (!there[i].defined() || parts_[i].data_ptr() == there[i].data_ptr()) continue;
      if (round_.own[i].on_host) {
        there[i].copy_(parts_[i].view(there[i].sizes()));
      } else {
        moves.add(there[i], parts_[i]);
      }
    }
    moves.run();
    parts_.clear();
    exchange(cross, gathered_label);
    Copies arrived;
    std::int64_t at = 0;
    for (const auto& part : round_.others) {
      if (!part.gives) continue;
      arrived.add(part.of(matrices_), next(cross.out, at, part.rect.numel()));
    }
    arrived.run();
  }

  // Where the rule writes a part.
  at::Tensor memory_of(const OwnPart& part, const at::Tensor& there) const {
    if (!there.defined()) return {};
    if (part.on_host && !group_.device().is_cpu()) return at::empty({part.elements()}, options_.device(at::kCPU));
    return is_mine(part) && !is_in_place(part) ? at::empty({part.elements()}, options_) : there.view({-1});
  }

  void give_back() {
    const auto cross = crossing(/*to_owners=*/false);
    Copies leaving;
    std::int64_t at = 0;
    for (const auto& part : round_.others)
      leaving.add(next(cross.in, at, part.rect.numel()).view({part.rect.rows, part.rect.cols}), part.of(matrices_));
    leaving.run();
    exchange(cross, returned_label);
    std::int64_t back = 0;
    for (const auto& part : round_.own) {
      const auto result =
          is_mine(part) ? part.whole.of(matrices_).reshape({-1}) : next(cross.out, back, part.elements());
      parts_.push_back(part.on_host ? result.to(at::kCPU) : result);
    }
  }

  optimizer::Slice slice(const MatrixUpdate::SliceOf& slice_of, std::size_t i, bool begins) const {
    const auto& part = round_.own[i];
    auto slice = slice_of(part.slice);
    const auto cut = [&](at::Tensor& all) {
      if (all.defined()) all = all.narrow(0, part.begin, part.elements());
    };
    slice.box = part.box;
    cut(slice.master);
    cut(slice.grad);
    cut(slice.copy);
    for (auto& state : slice.state) cut(state);
    if (!begins) slice.grad.reset();
    if (begins) slice.copy.reset();
    if (slice.grad.defined() && !plan_.rule->is_fused()) slice.grad = slice.grad.to(slice.master.scalar_type());
    slice.part = parts_[i];
    return slice;
  }

  // Slices of one call are on one device.
  void call(const MatrixUpdate::SliceOf& slice_of, const Updates& updates, bool begins) {
    for (const bool on_host : {false, true}) {
      std::vector<optimizer::Slice> slices;
      for (std::size_t i = 0; i < round_.own.size(); ++i) {
        if (round_.own[i].on_host == on_host) slices.push_back(slice(slice_of, i, begins));
      }
      if (slices.empty()) continue;
      if (begins) {
        plan_.rule->begin(slices, updates.on(on_host));
      } else {
        plan_.rule->apply(slices, updates.on(on_host));
      }
    }
  }

  const MatrixPlan& plan_;
  const MatrixRound& round_;
  comm::Group& group_;
  at::TensorOptions options_;
  at::Tensor matrices_;            ///< this rank's, whole
  std::vector<at::Tensor> parts_;  ///< by round_.own: what the rule is given, flat, next to the masters
};

Updates updates_of(const optimizer::Update& update, bool any_on_host) {
  if (!any_on_host) return {update, {}};
  const auto down = [](const at::Tensor& x) { return x.defined() ? x.to(at::kCPU) : x; };
  return {update, {down(update.count), down(update.grad_scale), down(update.skip)}};
}

OwnedMatrixState state_of(const WholeBatch& batch, std::size_t matrix, const optimizer::MatrixState& spec,
                          const at::Tensor& all) {
  const auto& record = *batch.records[matrix];
  OwnedMatrixState out{&record, &spec, {}, {}, all[static_cast<std::int64_t>(matrix)].view({-1})};
  out.shape.assign(record.shape.begin(), record.shape.end() - 2);
  out.box = {layout::Shape(out.shape.size()), layout::Shape(out.shape.size(), 1)};
  auto index = batch.indices[matrix];
  for (std::size_t d = out.shape.size(); d-- > 0; index /= out.shape[d]) out.box.offset[d] = index % out.shape[d];
  const auto own = layout::Box::whole(spec.shape);
  out.box.offset.insert(out.box.offset.end(), own.offset.begin(), own.offset.end());
  out.box.size.insert(out.box.size.end(), own.size.begin(), own.size.end());
  out.shape.insert(out.shape.end(), spec.shape.begin(), spec.shape.end());
  return out;
}

}  // namespace

MatrixUpdate::MatrixUpdate(std::vector<MatrixPlan> plans, std::shared_ptr<comm::Group> group)
    : plans_(std::move(plans)), group_(std::move(group)) {
  for (const auto& plan : plans_) {
    for (const auto& round : plan.rounds) {
      for (const auto& part : round.own) any_on_host_ = any_on_host_ || part.on_host;
    }
  }
}

void MatrixUpdate::allocate() {
  if (std::exchange(is_allocated_, true)) return;
  for (const auto& plan : plans_) {
    for (const auto& round : plan.rounds) {
      for (const auto& batch : round.batches) {
        const auto device = batch.on_host ? c10::Device(at::kCPU) : group_->device();
        for (const auto& state : batch.states) {
          layout::Shape shape{static_cast<std::int64_t>(batch.records.size())};
          shape.insert(shape.end(), state.shape.begin(), state.shape.end());
          held_.emplace_back(at::zeros(shape, at::TensorOptions(device).dtype(state.dtype)), batch.on_host);
        }
      }
    }
  }
}

std::vector<OwnedMatrixState> MatrixUpdate::states() {
  allocate();
  std::vector<OwnedMatrixState> list;
  auto next = held_.begin();
  for (const auto& plan : plans_) {
    for (const auto& round : plan.rounds) {
      for (const auto& batch : round.batches) {
        for (const auto& spec : batch.states) {
          const auto& all = (next++)->first;
          for (std::size_t i = 0; i < batch.records.size(); ++i) list.push_back(state_of(batch, i, spec, all));
        }
      }
    }
  }
  return list;
}

void MatrixUpdate::run(const SliceOf& slice_of, const optimizer::Update& update) {
  allocate();
  const auto updates = updates_of(update, any_on_host_);
  const auto* states = held_.data();
  for (const auto& plan : plans_) {
    for (const auto& round : plan.rounds) {
      Round(plan, round, *group_).run(slice_of, updates, states);
      for (const auto& batch : round.batches) states += batch.states.size();
    }
  }
}

}  // namespace capstan::strategy
