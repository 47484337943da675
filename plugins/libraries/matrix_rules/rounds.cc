#include "rounds.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <map>
#include <memory>
#include <numeric>
#include <utility>

namespace capstan::matrix_rules {
namespace {

const char* const gathered_label = "parts of whole matrices";
const char* const returned_label = "results of whole matrices";

// Copies of a list of tensors in few launches.
struct Copies {
  std::vector<at::Tensor> to;
  std::vector<at::Tensor> from;
  void add(const at::Tensor& destination, const at::Tensor& source) {
    to.push_back(destination);
    from.push_back(source);
  }
  void run() const {
    if (!to.empty()) at::_foreach_copy_(to, from);
  }
};

// One round: a call for each MatrixPhase, in their order.
class Round {
 public:
  Round(MatrixRule& rule, const MatrixRound& round, optimizer::JointStep& step)
      : rule_(rule),
        round_(round),
        step_(step),
        options_(at::TensorOptions().dtype(round.dtype).device(step.group().device())) {}

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
    Copies moves;
    for (std::size_t i = 0; i < there.size(); ++i) {
      if (there[i].defined() && parts_[i].data_ptr() != there[i].data_ptr())
        moves.add(there[i], parts_[i].view(there[i].sizes()));
    }
    moves.run();
    parts_.clear();
    exchange(round_.to_owners.others, round_.to_owners.own, gathered_label);
  }

  void arrive() {
    wait();
    Copies arrived;
    std::int64_t at = 0;
    for (const auto& part : round_.others) {
      if (part.gives) arrived.add(part.of(matrices_), next(out_, at, part.rect));
    }
    arrived.run();
    out_.reset();
    in_.reset();
  }

  // `states`: those of its batches, in order; moves on to the next round's.
  void compute(const at::Tensor*& states) const {
    for (const auto& batch : round_.batches) {
      const auto count = static_cast<std::int64_t>(batch.records.size());
      const auto value =
          matrices_.narrow(0, batch.begin, batch.elements).view({count, -1, batch.records.front()->shape.back()});
      std::vector<at::Tensor> here;
      for (std::size_t i = 0; i < batch.states.size(); ++i) {
        layout::Shape shape{count};
        shape.insert(shape.end(), batch.states[i].shape.begin(), batch.states[i].shape.end());
        here.push_back(states[i].view(shape).to(options_.device()));
      }
      rule_.whole({batch.records, value, here}, step_.update(/*on_host=*/false));
      for (const auto& state : here) {
        if (state.data_ptr() != states->data_ptr()) states->copy_(state.view({-1}));
        ++states;
      }
    }
  }

  void give_back() {
    allocate(round_.back.own, round_.back.others);
    Copies leaving;
    std::int64_t at = 0;
    for (const auto& part : round_.others) leaving.add(next(in_, at, part.rect), part.of(matrices_));
    leaving.run();
    exchange(round_.back.own, round_.back.others, returned_label);
    apply([&](const OwnPart& part) { return part.is_mine() ? part.whole.of(matrices_).reshape({-1}) : at::Tensor(); });
    matrices_.reset();
  }

  void end() {
    wait();
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

  void exchange(const std::vector<std::int64_t>& out, const std::vector<std::int64_t>& in, const char* label) {
    if (round_.exchanges) exchange_ = step_.start_all_to_all(out_, in_, out, in, label);
  }

  void wait() {
    if (exchange_) exchange_->wait();
    exchange_.reset();
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

  Part slice(std::size_t i, bool begins) const {
    const auto& part = round_.own[i];
    Part slice{step_.slice(part.slice)};
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
    if (slice.grad.defined() && !rule_.is_fused()) slice.grad = slice.grad.to(slice.master.scalar_type());
    slice.part = parts_[i];
    return slice;
  }

  // Slices of one call are on one device.
  void call(bool begins) const {
    for (const bool on_host : {false, true}) {
      std::vector<Part> slices;
      for (std::size_t i = 0; i < round_.own.size(); ++i) {
        if (round_.own[i].on_host == on_host && (begins || parts_[i].defined())) slices.push_back(slice(i, begins));
      }
      if (slices.empty()) continue;
      if (begins) {
        rule_.begin(slices, step_.update(on_host));
      } else {
        rule_.finish(slices, step_.update(on_host));
      }
    }
  }

  MatrixRule& rule_;
  const MatrixRound& round_;
  optimizer::JointStep& step_;
  at::TensorOptions options_;
  at::Tensor matrices_;                      ///< this rank's, whole
  at::Tensor out_;                           ///< memory for what arrives
  at::Tensor in_;                            ///< memory for what leaves
  std::unique_ptr<comm::Pending> exchange_;  ///< their exchange; null: none is under way
  std::vector<at::Tensor> parts_;            ///< by round_.own: what the rule is given, flat, next to the masters
};

optimizer::StatePart part_of(const WholeBatch& batch, std::size_t matrix, const MatrixState& state) {
  const auto& record = *batch.records[matrix];
  layout::Shape shape(record.shape.begin(), record.shape.end() - 2);
  shape.insert(shape.end(), state.shape.begin(), state.shape.end());
  return {&record, std::move(shape), box_of(record, batch.indices[matrix], layout::Box::whole(state.shape))};
}

}  // namespace

bool MatrixUpdate::takes(const layout::Param& record) const {
  return std::any_of(rounds_.begin(), rounds_.end(), [&](const MatrixRound& round) {
    return std::any_of(round.own.begin(), round.own.end(),
                       [&](const OwnPart& part) { return part.whole.record == &record; });
  });
}

std::vector<optimizer::JointState> MatrixUpdate::states() const {
  std::vector<optimizer::JointState> list;
  for (const auto& round : rounds_) {
    for (const auto& batch : round.batches) {
      for (const auto& state : batch.states) {
        list.push_back({state.name, state.dtype, batch.on_host});
        for (std::size_t i = 0; i < batch.records.size(); ++i) list.back().parts.push_back(part_of(batch, i, state));
      }
    }
  }
  return list;
}

optimizer::JointCost MatrixUpdate::cost() const {
  const auto bytes = bytes_of(rounds_);
  const auto work = work_of(rounds_);
  optimizer::JointCost cost;
  cost.memory.push_back({"whole matrices", bytes.device, c10::DeviceTypeName(device_, true), "update"});
  if (device_ != c10::DeviceType::CPU) cost.memory.push_back({"parts of whole matrices", bytes.host, "host", "update"});
  cost.flops = work.flops;
  // Parts go to the owners and come back.
  if (work.exchanges > 0) cost.calls = {{"all-to-all", work.sent_parts / work.exchanges, 2 * work.exchanges}};
  return cost;
}

void MatrixUpdate::run(optimizer::JointStep& step, const std::vector<at::Tensor>& states) {
  const auto* next_states = states.data();
  std::map<const MatrixRound*, Round> alive;
  each_phase(rounds_, [&](MatrixPhase phase, const MatrixRound& of) {
    auto& round = alive.try_emplace(&of, rule_, of, step).first->second;
    switch (phase) {
      case MatrixPhase::begin:
        return round.begin();
      case MatrixPhase::arrive:
        return round.arrive();
      case MatrixPhase::compute:
        return round.compute(next_states);
      case MatrixPhase::give_back:
        return round.give_back();
      case MatrixPhase::end:
        round.end();
        alive.erase(&of);
    }
  });
}

}  // namespace capstan::matrix_rules
