#include "strategy/joint_updates.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <optional>
#include <utility>

#include "strategy/optimizer.h"

namespace capstan::optimizer {

JointUpdate::~JointUpdate() = default;
JointStep::~JointStep() = default;

std::int64_t JointState::elements() const {
  std::int64_t sum = 0;
  for (const auto& part : parts) sum += part.box.numel();
  return sum;
}

}  // namespace capstan::optimizer

namespace capstan::strategy {
namespace {

// A call that was queued on the side stream.
class OnSide final : public comm::Pending {
 public:
  OnSide(c10::Device device, comm::Event ended) : device_(device), ended_(std::move(ended)) {}
  void wait() override { ended_.wait(device_); }

 private:
  c10::Device device_;
  comm::Event ended_;
};

class Step final : public optimizer::JointStep {
 public:
  Step(comm::Group& group, const comm::SideStream& side, const JointUpdates::SliceOf& slice_of,
       const optimizer::Update& update)
      : group_(group), side_(side), slice_of_(slice_of), on_device_(update) {}
  comm::Group& group() const override { return group_; }
  const optimizer::Update& update(bool on_host) override {
    if (!on_host) return on_device_;
    if (!on_host_) on_host_ = in_host_memory(on_device_);
    return *on_host_;
  }
  optimizer::Slice slice(std::size_t number) override { return slice_of_(number); }
  std::unique_ptr<comm::Pending> start_all_to_all(const at::Tensor& out, const at::Tensor& in,
                                                  const std::vector<std::int64_t>& out_counts,
                                                  const std::vector<std::int64_t>& in_counts,
                                                  std::string_view label) override {
    const comm::SideStream::Use on_stream(side_);
    group_.all_to_all(out, in, out_counts, in_counts, label);
    comm::Event ended;
    ended.record(group_.device());
    return std::make_unique<OnSide>(group_.device(), std::move(ended));
  }

 private:
  comm::Group& group_;
  const comm::SideStream& side_;
  const JointUpdates::SliceOf& slice_of_;
  const optimizer::Update& on_device_;
  std::optional<optimizer::Update> on_host_;  ///< once it has been asked for
};

}  // namespace

JointStateBytes state_bytes(const JointUpdateList& updates, bool only_saved) {
  JointStateBytes bytes;
  for (const auto& update : updates) {
    for (const auto& state : update->states()) {
      auto& sum = state.on_host ? bytes.host : bytes.device;
      for (const auto& part : state.parts) {
        if (part.is_saved || !only_saved)
          sum += part.box.numel() * static_cast<std::int64_t>(c10::elementSize(state.dtype));
      }
    }
  }
  return bytes;
}

std::vector<layout::Footprint> memory_of(const JointUpdateList& updates) {
  std::vector<layout::Footprint> list;
  for (const auto& update : updates) {
    for (auto& one : update->cost().memory) {
      const auto same = std::find_if(list.begin(), list.end(), [&](const layout::Footprint& other) {
        return other.part == one.part && other.device == one.device;
      });
      if (same == list.end()) {
        list.push_back(std::move(one));
      } else {
        same->bytes = std::max(same->bytes, one.bytes);
      }
    }
  }
  return list;
}

JointUpdates::JointUpdates(JointUpdateList updates, std::shared_ptr<comm::Group> group, const comm::SideStream& side)
    : group_(std::move(group)), side_(side) {
  for (auto& update : updates) {
    Joint joint{std::move(update), {}};
    for (auto& spec : joint.update->states()) joint.states.push_back({std::move(spec), {}});
    joints_.push_back(std::move(joint));
  }
}

bool JointUpdates::take(const layout::Param& record) const {
  return std::any_of(joints_.begin(), joints_.end(), [&](const Joint& joint) { return joint.update->takes(record); });
}

void JointUpdates::allocate() {
  for (auto& joint : joints_) {
    for (auto& [spec, value] : joint.states) {
      if (value.defined()) continue;
      const auto device = spec.on_host ? c10::Device(at::kCPU) : group_->device();
      value = at::zeros({spec.elements()}, at::TensorOptions(device).dtype(spec.dtype));
    }
  }
}

std::vector<KeptJointState> JointUpdates::states() {
  allocate();
  std::vector<KeptJointState> list;
  for (const auto& joint : joints_) {
    for (const auto& [spec, value] : joint.states) {
      std::int64_t begin = 0;
      for (const auto& part : spec.parts) {
        list.push_back({spec.name, part, value.narrow(0, begin, part.box.numel())});
        begin += part.box.numel();
      }
    }
  }
  return list;
}

void JointUpdates::each_held(const std::function<void(const at::Tensor&, bool)>& visit) const {
  for (const auto& joint : joints_) {
    for (const auto& [spec, value] : joint.states) {
      if (value.defined()) visit(value, spec.on_host);
    }
  }
}

void JointUpdates::run(const SliceOf& slice_of, const optimizer::Update& update) {
  allocate();
  Step step(*group_, side_, slice_of, update);
  for (const auto& joint : joints_) {
    std::vector<at::Tensor> states;
    for (const auto& state : joint.states) states.push_back(state.value);
    joint.update->run(step, states);
  }
}

}  // namespace capstan::strategy
