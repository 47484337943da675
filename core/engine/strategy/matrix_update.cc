#include "strategy/matrix_update.h"

#include <ATen/ATen.h>

#include <map>
#include <numeric>
#include <optional>
#include <utility>

#include "ops/add_lists.h"
#include "strategy/optimizer.h"

namespace capstan::strategy {
namespace {

const char* const gathered_label = "parts of whole matrices";
const char* const returned_label = "results of whole matrices";

// The scalars of an update, for slices on the device and, once they are asked for, for those in host memory.
struct Updates {
  const optimizer::Update& device;
  std::optional<optimizer::Update> host = {};

  const optimizer::Update& on(bool host_memory) {
    if (!host_memory) return device;
    if (!host) host = in_host_memory(device);
    return *host;
  }
};

// What the rounds of an update share.
struct Step {
  comm::Group& group;
  const comm::SideStream& side;
  const MatrixUpdate::SliceOf& slice_of;
  Updates& updates;
};

// One round: a call for each MatrixPhase, in their order.
class Round {
 public:
  Round(const MatrixRound& round, const Step& step)
      : round_(round), step_(step), options_(at::TensorOptions().dtype(round.dtype).device(step.group.device())) {}

  void begin() {
    matrices_ = at::empty({round_.elements()}, options_);
    allocate(round_.to_owners.others, round_.to_owners.own);
    std::vector<at::Tensor> there;  // where each part is to be on the device; undefined: another rank gives it
    std::int64_t sent = 0;
    for (const auto& part : round_.own) {
      if (part.is_mine()) {
        there.push_back(part.whole.of(matrices_));
      } else {
        there.push_back(part.whole.gives ? next(in_, sent, part.whole.rect) : at::Tensor());
      }
      parts_.push_back(memory_of(part, there.back()));
    }
    call(/*begins=*/true);
    ops::Moves moves;
    for (std::size_t i = 0; i < there.size(); ++i) {
      if (there[i].defined() && parts_[i].data_ptr() != there[i].data_ptr())
        moves.add(there[i], parts_[i].view(there[i].sizes()));
    }
    moves.run(/*write=*/true);
    parts_.clear();
    exchange(round_.to_owners.others, round_.to_owners.own, gathered_label);
  }

  void arrive() {
    exchanged_.wait(options_.device());
    ops::Moves arrived;
    std::int64_t at = 0;
    for (const auto& part : round_.others) {
      if (part.gives) arrived.add(part.of(matrices_), next(out_, at, part.rect));
    }
    arrived.run(/*write=*/true);
    out_.reset();
    in_.reset();
  }

  // `states`: those of its batches, in order; moves on to the next round's.
  void compute(const std::pair<at::Tensor, bool>*& states) const {
    for (const auto& batch : round_.batches) {
      const auto value =
          matrices_.narrow(0, batch.begin, batch.elements)
              .view({static_cast<std::int64_t>(batch.records.size()), -1, batch.records.front()->shape.back()});
      std::vector<at::Tensor> here;
      for (std::size_t i = 0; i < batch.states.size(); ++i) here.push_back(states[i].first.to(options_.device()));
      round_.rule->whole({batch.records, value, here}, step_.updates.device);
      for (const auto& state : here) (states++)->first.copy_(state);
    }
  }

  void give_back() {
    allocate(round_.back.own, round_.back.others);
    ops::Moves leaving;
    std::int64_t at = 0;
    for (const auto& part : round_.others) leaving.add(next(in_, at, part.rect), part.of(matrices_));
    leaving.run(/*write=*/true);
    exchange(round_.back.own, round_.back.others, returned_label);
    apply([&](const OwnPart& part) { return part.is_mine() ? part.whole.of(matrices_).reshape({-1}) : at::Tensor(); });
    matrices_.reset();
  }

  void end() {
    exchanged_.wait(options_.device());
    std::int64_t at = 0;
    apply([&](const OwnPart& part) {
      return part.is_mine() ? at::Tensor() : next(out_, at, part.whole.rect).view({-1});
    });
  }

 private:
  // Memory for what crosses, one rank's after the other's.
  void allocate(const std::vector<std::int64_t>& out, const std::vector<std::int64_t>& in) {
    const auto memory = [&](const std::vector<std::int64_t>& counts) {
      return at::empty({std::accumulate(counts.begin(), counts.end(), std::int64_t{0})}, options_);
    };
    out_ = memory(out);
    in_ = memory(in);
  }

  // The current stream may read and free what crosses once it has waited for `exchanged_`.
  void exchange(const std::vector<std::int64_t>& out, const std::vector<std::int64_t>& in, const char* label) {
    if (!round_.exchanges) return;
    const comm::SideStream::Use on_stream(step_.side);
    step_.group.all_to_all(out_, in_, out, in, label);
    exchanged_.record(options_.device());
  }

  // The next part in a buffer.
  static at::Tensor next(const at::Tensor& buffer, std::int64_t& at, const Rect& rect) {
    at += rect.numel();
    return buffer.narrow(0, at - rect.numel(), rect.numel()).view({rect.rows, rect.cols});
  }

  // Where the rule writes a part.
  at::Tensor memory_of(const OwnPart& part, const at::Tensor& there) const {
    if (!there.defined()) return {};
    if (part.on_host && !options_.device().is_cpu()) return at::empty({part.elements()}, options_.device(at::kCPU));
    return part.is_mine() && !part.is_in_place() ? at::empty({part.elements()}, options_) : there.view({-1});
  }

  // Applies the parts of which there is a result now.
  template <class ResultOf>
  void apply(const ResultOf& result_of) {
    for (const auto& part : round_.own) {
      const at::Tensor result = result_of(part);
      parts_.push_back(result.defined() && part.on_host ? result.to(at::kCPU) : result);
    }
    call(/*begins=*/false);
    parts_.clear();
  }

  optimizer::Slice slice(std::size_t i, bool begins) const {
    const auto& part = round_.own[i];
    auto slice = step_.slice_of(part.slice);
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
    if (slice.grad.defined() && !round_.rule->is_fused()) slice.grad = slice.grad.to(slice.master.scalar_type());
    slice.part = parts_[i];
    return slice;
  }

  // Slices of one call are on one device.
  void call(bool begins) const {
    for (const bool on_host : {false, true}) {
      std::vector<optimizer::Slice> slices;
      for (std::size_t i = 0; i < round_.own.size(); ++i) {
        if (round_.own[i].on_host == on_host && (begins || parts_[i].defined())) slices.push_back(slice(i, begins));
      }
      if (slices.empty()) continue;
      if (begins) {
        round_.rule->begin(slices, step_.updates.on(on_host));
      } else {
        round_.rule->apply(slices, step_.updates.on(on_host));
      }
    }
  }

  const MatrixRound& round_;
  const Step& step_;
  at::TensorOptions options_;
  at::Tensor matrices_;            ///< this rank's, whole
  at::Tensor out_, in_;            ///< what is on its way
  comm::Event exchanged_;          ///< it has arrived
  std::vector<at::Tensor> parts_;  ///< by round_.own: what the rule is given, flat, next to the masters
};

OwnedMatrixState state_of(const WholeBatch& batch, std::size_t matrix, const optimizer::MatrixState& spec,
                          const at::Tensor& all) {
  const auto& record = *batch.records[matrix];
  layout::Shape shape(record.shape.begin(), record.shape.end() - 2);
  shape.insert(shape.end(), spec.shape.begin(), spec.shape.end());
  auto box = box_of(record, batch.indices[matrix], layout::Box::whole(spec.shape));
  return {&record, &spec, std::move(shape), std::move(box), all[static_cast<std::int64_t>(matrix)].view({-1})};
}

}  // namespace

void MatrixUpdate::allocate() {
  if (!held_.empty()) return;
  for (const auto& round : rounds_) {
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

std::vector<OwnedMatrixState> MatrixUpdate::states() {
  allocate();
  std::vector<OwnedMatrixState> list;
  auto next = held_.begin();
  for (const auto& round : rounds_) {
    for (const auto& batch : round.batches) {
      for (const auto& spec : batch.states) {
        const auto& all = (next++)->first;
        for (std::size_t i = 0; i < batch.records.size(); ++i) list.push_back(state_of(batch, i, spec, all));
      }
    }
  }
  return list;
}

void MatrixUpdate::run(const SliceOf& slice_of, const optimizer::Update& update) {
  allocate();
  Updates updates{update};
  const Step step{*group_, side_, slice_of, updates};
  const auto* states = std::as_const(held_).data();
  std::map<const MatrixRound*, Round> alive;
  each_phase(rounds_, [&](MatrixPhase phase, const MatrixRound& of) {
    auto& round = alive.try_emplace(&of, of, step).first->second;
    switch (phase) {
      case MatrixPhase::begin:
        return round.begin();
      case MatrixPhase::arrive:
        return round.arrive();
      case MatrixPhase::compute:
        return round.compute(states);
      case MatrixPhase::give_back:
        return round.give_back();
      case MatrixPhase::end:
        round.end();
        alive.erase(&of);
    }
  });
}

}  // namespace capstan::strategy
