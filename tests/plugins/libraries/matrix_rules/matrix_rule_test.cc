// Rules that need whole matrices: every layout updates as one rank does.
#include <capstan/matrix_rules/matrix_rule.h>
#include <capstan_catch.h>

#include <mutex>
#include <numeric>
#include <stdexcept>

#include "peers/call_log.h"
#include "plugins/libraries/matrix_rules/rounds.h"
#include "shard/counting.h"
#include "shard/rig.h"
#include "strategy/joint_updates.h"
#include "support/errors.h"

namespace matrix_rule_test {

using namespace capstan;
using namespace capstan::testing;
using comm::Communicator;
using comm::run_in_process;

namespace {

// Gradients are added up; each matrix m of the sums becomes (1 + L)^-1 m, where its owner keeps L, the sum of all m
// m^T. Vectors move by their gradients.
class Preconditioned : public matrix_rules::MatrixRule {
 public:
  using MatrixRule::MatrixRule;
  std::vector<optimizer::StateSpec> states(const layout::Param& /*record*/) const override { return {{"sum"}}; }
  std::optional<matrix_rules::WholeSpec> whole_spec(const layout::Param& record, c10::ScalarType master,
                                                    c10::DeviceType /*device*/) const override {
    const auto rows = record.shape.at(0);
    return matrix_rules::WholeSpec{master, static_cast<double>(record.numel()), 0, {{"left", master, {rows, rows}}}};
  }
  void begin(std::vector<matrix_rules::Part>& parts, const optimizer::Update& /*update*/) override {
    for (auto& part : parts) {
      part.state[0].add_(part.grad);
      if (part.part.defined()) part.part.copy_(part.state[0]);
    }
  }
  void whole(const matrix_rules::Matrices& matrices, const optimizer::Update& /*update*/) override {
    const auto& m = matrices.value;
    if (static_cast<std::int64_t>(matrices.records.size()) != m.size(0)) throw std::logic_error("a record a matrix");
    matrices.state[0].add_(at::bmm(m, m.transpose(1, 2)));
    m.copy_(at::linalg_solve(matrices.state[0] + at::eye(m.size(1), m.options()), m));
  }
  void finish(std::vector<matrix_rules::Part>& parts, const optimizer::Update& /*update*/) override {
    for (auto& part : parts) part.master.sub_(part.part);
  }
  void apply(std::vector<optimizer::Slice>& slices, const optimizer::Update& /*update*/) override {
    for (auto& slice : slices) slice.master.sub_(slice.grad * slice.lr);
  }
};

struct Case {
  int world = 1;
  int stage = 0;
  int offload = 0;
  std::int64_t most_whole = 1000;
  double ratio = 1;
};

// Masters after two steps of four batches each.
Whole run(const Case& c) {
  at::set_num_threads(1);
  Whole weights;
  std::mutex mutex;
  run_in_process(c.world, [&](Communicator& communicator) {
    RigOptions options{.accumulation = 4 / c.world, .optimizer = std::make_shared<Preconditioned>(c.most_whole)};
    options.policy = [&](strategy::ShardPolicy& policy) {
      set_stage(policy, c.stage, c.offload);
      policy.offload_ratio = c.ratio;
    };
    Rig rig(communicator, options);
    for (std::int64_t step = 0; step < 2; ++step) {
      for (std::int64_t micro = 0; micro < options.accumulation; ++micro)
        rig.micro_step(micro, tiny_batch(step * 4 + micro * c.world + communicator.world().rank));
      rig.engine->update(0.01, {});
    }
    merge(weights, mutex, rig.engine->stored_boxes());
  });
  return weights;
}

double apart(const Whole& a, const Whole& b) {
  REQUIRE(a.size() == b.size());
  double most = 0;
  for (const auto& [name, value] : a) most = std::max(most, (value - b.at(name)).abs().max().item<double>());
  return most;
}

// Notes its calls, in which each row becomes the sum of those above it and itself. Asks for no memory but what it says.
class Noting : public matrix_rules::MatrixRule {
 public:
  Noting(std::vector<std::string>& events, std::int64_t most_whole) : MatrixRule(most_whole), events_(events) {}
  static constexpr std::int64_t bytes = 1000;
  std::vector<optimizer::StateSpec> states(const layout::Param& /*record*/) const override { return {}; }
  std::optional<matrix_rules::WholeSpec> whole_spec(const layout::Param& /*record*/, c10::ScalarType /*master*/,
                                                    c10::DeviceType /*device*/) const override {
    return matrix_rules::WholeSpec{at::kFloat, 1, bytes, {}};
  }
  void begin(std::vector<matrix_rules::Part>& parts, const optimizer::Update& /*update*/) override {
    events_.emplace_back("begin");
    for (auto& part : parts) {
      if (part.part.defined()) part.part.copy_(part.grad);
    }
  }
  void whole(const matrix_rules::Matrices& matrices, const optimizer::Update& /*update*/) override {
    events_.emplace_back("whole");
    const auto memory = at::empty({bytes * matrices.value.size(0)}, at::kByte);
    sum_rows(matrices.value);
  }
  void finish(std::vector<matrix_rules::Part>& parts, const optimizer::Update& /*update*/) override {
    for (auto& part : parts) part.master.sub_(part.part);
  }
  void apply(std::vector<optimizer::Slice>& /*slices*/, const optimizer::Update& /*update*/) override {}
  static void sum_rows(const at::Tensor& matrices) {
    for (std::int64_t row = 1; row < matrices.size(1); ++row) matrices.select(1, row).add_(matrices.select(1, row - 1));
  }

 private:
  std::vector<std::string>& events_;
};

// Notes the labels of all-to-alls as they are started.
class Recording final : public comm::Group {
 public:
  Recording(std::shared_ptr<comm::Group> group, const std::shared_ptr<peers::CallLog>& log,
            std::vector<std::string>& events)
      : Group("recording", group->ranks(), group->rank(), group->device(), log),
        group_(std::move(group)),
        log_(log),
        events_(events) {}

 private:
  void do_all_to_all(const at::Tensor& out, const at::Tensor& in, const std::vector<std::int64_t>& out_counts,
                     const std::vector<std::int64_t>& in_counts) override {
    events_.push_back(log_->last().value().label);
    group_->all_to_all(out, in, out_counts, in_counts, "recorded");
  }
  [[noreturn]] static void unexpected() { throw std::logic_error("an update makes all-to-alls only"); }
  void do_all_reduce(const at::Tensor&, comm::ReduceOp) override { unexpected(); }
  void do_all_gather(const at::Tensor&, const at::Tensor&) override { unexpected(); }
  void do_reduce_scatter(const at::Tensor&, const at::Tensor&) override { unexpected(); }
  void do_broadcast(const at::Tensor&, int) override { unexpected(); }
  void do_barrier() override { unexpected(); }
  Rest do_start_send(const at::Tensor&, int) override { unexpected(); }
  void do_receive(const at::Tensor&, int) override { unexpected(); }

  std::shared_ptr<comm::Group> group_;
  std::shared_ptr<peers::CallLog> log_;
  std::vector<std::string>& events_;
};

enum class Split { rows, columns, copies };

layout::Box part_of(const layout::Shape& shape, Split split, int rank, int world) {
  auto box = layout::Box::whole(shape);
  if (split == Split::copies) return box;
  const std::size_t dim = split == Split::rows ? 0 : 1;
  box.size[dim] /= world;
  box.offset[dim] = rank * box.size[dim];
  return box;
}

constexpr std::int64_t matrix_count = 12, side = 12;

// What a rank does in an update of matrices that are split so, one for each owner in a round.
struct Updated {
  std::vector<std::string> events;
  std::int64_t rounds = 0, taken = 0, said = 0;
  bool is_right = true;
};

Updated update_on(Communicator& communicator, Split split) {
  const int rank = communicator.world().rank, world = communicator.world().size;
  std::vector<int> everyone(static_cast<std::size_t>(world));
  std::iota(everyone.begin(), everyone.end(), 0);
  Updated out;
  Noting rule(out.events, 2 * side * side);
  std::vector<layout::Param> params;
  for (std::int64_t i = 0; i < matrix_count; ++i)
    params.push_back(tiny_record("matrix" + std::to_string(i), {side, side}, true));
  optimizer::Sharing sharing{{}, rank, at::kFloat, at::kCPU};
  auto& records = sharing.records;
  std::vector<at::Tensor> masters, gradients, expected;
  for (std::size_t i = 0; i < params.size(); ++i) {
    records.push_back({&params[i], {}, i});
    for (int r = 0; r < world; ++r) records.back().boxes.push_back(part_of(params[i].shape, split, r, world));
    const auto whole = at::arange(side * side, at::kFloat).view({1, side, side}).add(static_cast<double>(i)).sin();
    const auto box = records.back().boxes[static_cast<std::size_t>(rank)];
    gradients.push_back(slice(whole[0], box).flatten().clone());
    masters.push_back(at::ones_like(gradients.back()));
    Noting::sum_rows(whole);
    expected.push_back(masters.back() - slice(whole[0], box).flatten());
  }
  out.rounds = static_cast<std::int64_t>(
      matrix_rules::plan_matrices(matrix_rules::whole_records(rule, sharing), rank, 2 * side * side).size());
  std::vector<std::unique_ptr<optimizer::JointUpdate>> updates;
  updates.push_back(rule.joint(sharing));
  out.said = updates.front()->cost().memory.front().bytes;
  const auto log = std::make_shared<peers::CallLog>();
  const auto group = communicator.group("matrices", everyone, c10::Device(c10::DeviceType::CPU));
  const comm::SideStream side_stream(group->device(), true);
  strategy::JointUpdates update(std::move(updates), std::make_shared<Recording>(group, log, out.events), side_stream);
  const auto before = peak = live;
  update.run(
      [&](std::size_t i) {
        optimizer::Slice one;
        one.record = &params[i];
        one.master = masters[i];
        one.grad = gradients[i];
        return one;
      },
      {});
  out.taken = peak - before;
  for (std::size_t i = 0; i < params.size(); ++i) out.is_right = out.is_right && at::equal(masters[i], expected[i]);
  out.is_right = out.is_right && live == before;
  return out;
}

}  // namespace

TEST_CASE("whole matrices are updated as on one rank, in one round or many, wherever masters are") {
  const auto alone = run({});
  CHECK(apart(alone, run({1, 0, 0, 1})) < 1e-13);
  for (const int world : {1, 2, 4}) {
    for (const int stage : {0, 1, 2, 3}) {
      for (const int offload : {0, 1, 2}) {
        if ((offload > 0 && stage == 0) || (offload == 2 && stage < 3)) continue;
        for (const std::int64_t most : {1, 1000}) {
          for (const double ratio : {1.0, 0.5}) {
            if (ratio < 1 && offload == 0) continue;
            INFO("world " << world << " stage " << stage << " offload " << offload << " most " << most << " ratio "
                          << ratio);
            CHECK(apart(alone, run({world, stage, offload, most, ratio})) < 1e-12);
          }
        }
      }
    }
  }
}

TEST_CASE("rules of other grains update their records beside it") {
  run_in_process(2, [](Communicator& communicator) {
    auto group = strategy::OptimizerGroup{"groups", {"*.down"}, std::make_shared<RuleOf>(0)};
    int plain = 0;
    static_cast<RuleOf&>(*group.rule).set([&](std::vector<optimizer::Slice>& slices) {
      for (auto& slice : slices) {
        ++plain;
        slice.master.zero_();
      }
    });
    RigOptions options;
    options.groups = {group, {"optimizer", {}, std::make_shared<Preconditioned>()}};
    options.policy = [](strategy::ShardPolicy& policy) { set_stage(policy, 2, 1); };
    Rig rig(communicator, options);
    rig.micro_step(0, tiny_batch(communicator.world().rank));
    rig.engine->update(0.01, {});
    Whole weights;
    std::mutex mutex;
    merge(weights, mutex, rig.engine->stored_boxes());
    CHECK(plain == 2);
    for (const auto& [name, value] : weights) {
      if (name.ends_with(".down")) CHECK(value.nan_to_num(0).count_nonzero().item<std::int64_t>() == 0);
      if (name.ends_with(".q")) CHECK(value.nan_to_num(0).count_nonzero().item<std::int64_t>() > 0);
    }
  });
}

TEST_CASE("parts of the next round are on their way before one is computed, by the same calls on all ranks") {
  const int world = GENERATE(2, 3, 4);
  const auto split = GENERATE(Split::rows, Split::columns, Split::copies);
  INFO("world " << world << " split " << static_cast<int>(split));
  std::vector<Updated> ranks(static_cast<std::size_t>(world));
  const Counting counting;
  run_in_process(world, [&](Communicator& communicator) {
    ranks[static_cast<std::size_t>(communicator.world().rank)] = update_on(communicator, split);
  });
  const std::string parts = "parts of whole matrices", results = "results of whole matrices";
  std::vector<std::string> order{"begin", parts};
  for (std::int64_t round = 0; round < matrix_count / world; ++round) {
    if (round + 1 < matrix_count / world) order.insert(order.end(), {"begin", parts});
    order.insert(order.end(), {"whole", results});
  }
  for (const auto& rank : ranks) {
    CHECK(rank.rounds == matrix_count / world);
    CHECK(rank.events == order);
    CHECK(rank.is_right);
    CHECK(rank.taken == rank.said);
  }
}

TEST_CASE("a state of blocks is refused where a record's matrices are to be whole, and vectors are no matrices") {
  class Blocks : public Preconditioned {
   public:
    std::vector<optimizer::StateSpec> states(const layout::Param& record) const override {
      return {{"codes", {}, record.name == "matrix" ? 4 : 1}};
    }
  };
  Blocks rule;
  const auto matrix = tiny_record("matrix", {3, 4}, true), vector = tiny_record("bias", {4}, true);
  const optimizer::Sharing with_matrix{{{&matrix, {layout::Box::whole({3, 4})}}}};
  CHECK_THAT(test::error_of([&] { (void)rule.joint(with_matrix); }),
             Contains("its state 'codes' of 'matrix' has blocks of 4 elements") && Contains("one element for each"));
  CHECK(rule.joint({{{&vector, {layout::Box::whole({4})}}}}) == nullptr);
  CHECK(rule.why_useless({&vector}) == "nothing that it trains is a matrix for it");
  CHECK(rule.why_useless({&vector, &matrix}).empty());
}

}  // namespace matrix_rule_test
