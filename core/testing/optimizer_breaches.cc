#include <ATen/ATen.h>
#include <capstan/comm/communicator.h>
#include <capstan/optimizer/joint.h>
#include <capstan/optimizer/rule.h>
#include <capstan/testing.h>

#include <algorithm>
#include <memory>
#include <optional>
#include <set>

#include "comm/side_stream.h"
#include "strategy/joint_updates.h"
#include "testing/breaches.h"

namespace capstan::testing {
namespace {

using optimizer::Grain;
using optimizer::Rule;
using optimizer::Slice;
using optimizer::Update;

constexpr std::int64_t matrix_rows = 6, matrix_columns = 11;

Update update_of(int count, double scale = 1, bool skip = false) {
  return {at::full({}, count, at::kDouble), at::full({}, scale, at::kFloat),
          at::full({}, skip ? 1.0 : 0.0, at::kFloat)};
}

// A weight of one matrix, its values and two gradients.
struct Case {
  nn::Weight weight{{nn::record("matrix", {matrix_rows, matrix_columns}, layout::Init::normal(0.02), true)}};
  at::Tensor master = at::sin(at::arange(matrix_rows * matrix_columns, at::kDouble) * 0.7 + 0.3);
  std::vector<at::Tensor> gradients{at::cos(at::arange(matrix_rows * matrix_columns, at::kDouble) * 1.3),
                                    at::sin(at::arange(matrix_rows* matrix_columns, at::kDouble) * 0.4 + 1)};
  const layout::Param& record() const { return weight.records().front(); }
};

std::vector<at::Tensor> zero_states(const Rule& rule, const layout::Param& record, std::int64_t elements) {
  std::vector<at::Tensor> states;
  for (const auto& spec : rule.states(record))
    states.push_back(at::zeros({(elements + spec.block - 1) / spec.block}, spec.dtype.value_or(at::kDouble)));
  return states;
}

// All of the weight, or its elements from `begin`.
Slice slice_of(const Rule& rule, const Case& of, std::int64_t begin = 0,
               std::int64_t count = matrix_rows * matrix_columns) {
  Slice slice;
  slice.weight = &of.weight;
  if (rule.grain() != Grain::element) {
    slice.record = &of.record();
    slice.box = layout::Box::whole({matrix_rows, matrix_columns});
  }
  slice.lr = 0.01;
  slice.weight_decay = 0.1;
  slice.master = of.master.narrow(0, begin, count).clone();
  slice.grad = of.gradients.front().narrow(0, begin, count).clone();
  slice.state = zero_states(rule, of.record(), count);
  return slice;
}

std::vector<at::Tensor> copies_of(const std::vector<at::Tensor>& tensors) {
  std::vector<at::Tensor> copies;
  for (const auto& tensor : tensors) copies.push_back(tensor.clone());
  return copies;
}

struct Result {
  at::Tensor master;
  std::vector<at::Tensor> states;
  bool operator==(const Result& other) const {
    return at::equal(master, other.master) &&
           std::equal(states.begin(), states.end(), other.states.begin(), other.states.end(),
                      [](const auto& a, const auto& b) { return at::equal(a, b); });
  }
};

// All of the weight on one rank, updated as the engine does: jointly, if the rule asks for that.
struct Alone {
  Alone(Rule& of_rule, const Case& of) : rule(of_rule), slices{slice_of(of_rule, of)} {
    if (rule.grain() == Grain::element) return;
    const auto box = layout::Box::whole(of.record().shape);
    std::vector<std::unique_ptr<optimizer::JointUpdate>> updates;
    updates.push_back(rule.joint({{{&of.record(), {box}}}, 0, at::kDouble, at::kCPU}));
    if (!updates.front() || !updates.front()->takes(of.record())) return;
    comm::run_in_process(1, [&](comm::Communicator& communicator) {
      joint.emplace(std::move(updates), communicator.group("alone", {0}, device), side);
    });
  }
  void update(const Update& by) {
    if (joint) {
      joint->run([&](std::size_t) { return slices[0]; }, by);
    } else {
      rule.apply(slices, by);
    }
  }
  Result result() {
    Result now{slices[0].master.clone(), copies_of(slices[0].state)};
    if (!joint) return now;
    for (const auto& state : joint->states()) now.states.push_back(state.value.clone());
    return now;
  }

  Rule& rule;
  std::vector<Slice> slices;  ///< one
  c10::Device device{at::kCPU};
  comm::SideStream side{device, false};
  std::optional<strategy::JointUpdates> joint;
};

// Two updates, whose gradients are `scale` times as large and divided by it again.
Result updated(Rule& rule, const Case& of, double scale = 1) {
  Alone alone(rule, of);
  for (int step = 0; step < 2; ++step) {
    alone.slices[0].grad = of.gradients[static_cast<std::size_t>(step)] * scale;
    alone.update(update_of(step + 1, scale));
  }
  return alone.result();
}

void check_states(const Rule& rule, const Case& of, Breaches& breaches) {
  const auto states = rule.states(of.record());
  const auto again = rule.states(of.record());
  std::set<std::string> names;
  for (const auto& state : states) {
    breaches.unless(!state.name.empty() && names.insert(state.name).second, "states() has the name '", state.name,
                    "' twice, or none");
    breaches.unless(state.block >= 1, "state '", state.name, "' has blocks of ", state.block);
  }
  breaches.unless(states.size() == again.size(), "states() are others the second time");
}

void check_zero(Rule& rule, const Case& of, Breaches& breaches) {
  Alone alone(rule, of);
  const auto& slice = alone.slices[0];
  slice.master.zero_();
  slice.grad.zero_();
  for (int step = 0; step < 2; ++step) alone.update(update_of(step + 1));
  breaches.unless(at::equal(slice.master, at::zeros_like(slice.master)),
                  "a zero parameter with a zero gradient does not stay zero: padding would grow");
}

void check_skip(Rule& rule, const Case& of, Breaches& breaches) {
  Alone alone(rule, of);
  alone.update(update_of(1));
  const auto before = alone.result();
  alone.slices[0].grad.fill_(std::numeric_limits<double>::quiet_NaN());
  alone.update(update_of(1, 1, /*skip=*/true));
  breaches.unless(alone.result() == before, "an update that is to be skipped changes the master or a state");
}

// The same elements in two slices; ranks may begin at any of them.
void check_parts(Rule& rule, const Case& of, Breaches& breaches) {
  if (rule.grain() != Grain::element) return;
  const auto whole = updated(rule, of);
  constexpr std::int64_t first = 23;
  std::vector<Slice> parts{slice_of(rule, of, 0, first),
                           slice_of(rule, of, first, matrix_rows * matrix_columns - first)};
  for (int step = 0; step < 2; ++step) {
    const auto& grad = of.gradients[static_cast<std::size_t>(step)];
    parts[0].grad = grad.narrow(0, 0, first).clone();
    parts[1].grad = grad.narrow(0, first, matrix_rows * matrix_columns - first).clone();
    rule.apply(parts, update_of(step + 1));
  }
  breaches.unless(at::equal(at::cat({parts[0].master, parts[1].master}), whole.master),
                  "an element's update depends on the other elements of its slice, and the grain is an element");
}

void check_copy(Rule& rule, const Case& of, Breaches& breaches) {
  if (!rule.is_fused()) return;
  std::vector<Slice> slices{slice_of(rule, of)};
  slices[0].copy = at::zeros({matrix_rows * matrix_columns}, at::kBFloat16);
  rule.apply(slices, update_of(1));
  breaches.unless(at::equal(slices[0].copy, slices[0].master.to(at::kBFloat16)),
                  "is_fused() is true, and the copy is not the updated master");
}

}  // namespace

std::string optimizer_breaches(const std::function<std::shared_ptr<optimizer::Rule>()>& make) {
  Breaches breaches;
  const auto rule = breaches.result("construction", make);
  if (!rule) return breaches.text();
  const Case of;
  check_states(*rule, of, breaches);
  breaches.result("apply()", [&] {
    const auto result = updated(*rule, of);
    breaches.unless(!at::equal(result.master, of.master), "two updates change nothing");
    breaches.unless(updated(*make(), of) == result, "another object of the same options makes other updates");
    constexpr double power_of_two = 4;  // exact
    breaches.unless(updated(*rule, of, power_of_two) == result, "gradients are not divided by Update::grad_scale");
    check_zero(*rule, of, breaches);
    check_skip(*rule, of, breaches);
    check_parts(*rule, of, breaches);
    check_copy(*rule, of, breaches);
  });
  return breaches.text();
}

}  // namespace capstan::testing
