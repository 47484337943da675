// When strategies' step hooks are called, and what of theirs outlives a step, a checkpoint and a mesh.
#include "step/strategy_hooks.h"

#include <ATen/ATen.h>
#include <capstan/base/text.h>
#include <capstan/strategy.h>
#include <capstan/strategy/own_state.h>
#include <capstan/testing.h>
#include <capstan_catch.h>

#include <map>
#include <mutex>

namespace strategy_hooks_test {

using namespace capstan;

namespace {

using Tensors = std::map<std::string, at::Tensor>;

struct HookOptions {
  bool apart = false;
  bool saves = true;
  static void describe(config::OptionTable<HookOptions>& t) {
    t.add("apart", &HookOptions::apart).doc("data ranks train by themselves");
    t.add("saves", &HookOptions::saves).doc("before_save does what it should");
  }
};

// A strategy of these tests: data ranks may train by themselves.
class Tried : public strategy::Strategy {
 public:
  explicit Tried(config::Options<HookOptions> options) : options_(std::move(options)) {}
  void place(nn::Unit& unit, const strategy::Placement& /*placement*/) override {
    if (!options_->apart) return;
    for (auto* record : nn::parameters(unit)) record->local_axes = {layout::Axis::dp, layout::Axis::ep};
  }

 protected:
  config::Options<HookOptions> options_;
};

Tensors copies(const strategy::StepContext& step) {
  Tensors tensors;
  for (const auto& part : step.parts) {
    tensors[part.record->name] = part.master.clone();
    for (std::size_t i = 0; i < part.moments.size(); ++i)
      tensors[cat(part.record->name, " moment ", i)] = part.moments[i].clone();
  }
  return tensors;
}

bool equal(const Tensors& a, const Tensors& b) {
  return a.size() == b.size() && std::all_of(a.begin(), a.end(), [&](const auto& entry) {
           return b.contains(entry.first) && at::equal(entry.second, b.at(entry.first));
         });
}

// What the ranks of a test have seen; they are threads.
struct Seen {
  struct Call {
    int rank;
    std::string hook;
    std::int64_t number;
    Tensors tensors;
  };
  std::mutex mutex;
  std::vector<Call> calls;
  std::int64_t compared = 0;
  std::int64_t wrong = 0;
  std::int64_t own_is_new = 0;

  void add(const strategy::StepContext& step, const char* hook) {
    const std::lock_guard lock(mutex);
    calls.push_back({step.group(layout::Axis::dp).rank(), hook, step.number, copies(step)});
  }
  std::vector<Call> of(int rank, const std::string& hook) const {
    std::vector<Call> found;
    for (const auto& call : calls) {
      if (call.rank == rank && call.hook == hook) found.push_back(call);
    }
    return found;
  }
  void clear() {
    const std::lock_guard lock(mutex);
    calls.clear();
    compared = wrong = own_is_new = 0;
  }
};

Seen seen;

class Watches : public Tried {
 public:
  using Tried::Tried;
  std::unique_ptr<strategy::StepHooks> step() override { return std::make_unique<Hooks>(); }

 private:
  class Hooks : public strategy::StepHooks {
    void begin(strategy::StepContext& step) override { seen.add(step, "begin"); }
    void after_step(strategy::StepContext& step) override { seen.add(step, "after_step"); }
    void before_save(strategy::StepContext& step) override { seen.add(step, "before_save"); }
  };
};

// Tensors of records have values by which each element is known, whoever holds it.
class Shares : public Tried {
 public:
  using Tried::Tried;
  std::unique_ptr<strategy::StepHooks> step() override { return std::make_unique<Hooks>(); }

 private:
  class Hooks : public strategy::StepHooks, public strategy::OwnState {
    strategy::OnOtherMesh on_other_mesh() const override { return strategy::OnOtherMesh::start_anew; }
    void begin(strategy::StepContext& step) override {
      const bool is_new = !step.state->has("marks");
      const bool own_is_new = !step.state->has("own");
      step.state->tensor("own", {1}, at::kLong).fill_(step.group(layout::Axis::dp).rank());
      const std::lock_guard lock(seen.mutex);
      seen.own_is_new += own_is_new ? 1 : 0;
      for (const auto& part : step.parts) {
        auto marks = step.state->of_part(part, "marks", at::device(at::kCPU).dtype(at::kDouble));
        const auto right = marks_of(part);
        if (is_new) {
          marks.copy_(right);
        } else {
          ++seen.compared;
          seen.wrong += at::equal(marks, right) ? 0 : 1;
        }
      }
    }
    static at::Tensor marks_of(const strategy::StepPart& part) {
      auto all = at::arange(part.record->numel(), at::kDouble).add(0.5).sin().view(part.record->shape);
      for (std::size_t d = 0; d < part.box.size.size(); ++d)
        all = all.narrow(static_cast<std::int64_t>(d), part.box.offset[d], part.box.size[d]);
      return all.reshape({-1});
    }
  };
};

// A sum that each rank has, together with what belongs to records: half of it does not survive a change of mesh.
class Halves : public Tried {
 public:
  using Tried::Tried;
  std::unique_ptr<strategy::StepHooks> step() override { return std::make_unique<Hooks>(); }

 private:
  class Hooks : public strategy::StepHooks {
    void after_step(strategy::StepContext& step) override {
      step.state->tensor("sum", {1}, at::kDouble).add_(1);
      for (auto& part : step.parts) step.state->of_part(part, "marks", at::kDouble).add_(1);
    }
  };
};

// The state is each rank's own, and the strategy says that it is nothing without it.
class Insists : public Tried {
 public:
  using Tried::Tried;
  std::unique_ptr<strategy::StepHooks> step() override { return std::make_unique<Hooks>(); }

 private:
  class Hooks : public strategy::StepHooks, public strategy::OwnState {
    strategy::OnOtherMesh on_other_mesh() const override { return strategy::OnOtherMesh::refuse; }
    void after_step(strategy::StepContext& step) override { step.state->tensor("sum", {1}, at::kDouble).add_(1); }
  };
};

// Every third step the ranks begin to take the mean of a number, and use it two steps later.
class Overlaps : public Tried {
 public:
  using Tried::Tried;
  std::unique_ptr<strategy::StepHooks> step() override { return std::make_unique<Hooks>(options_->saves); }

 private:
  class Hooks : public strategy::StepHooks {
   public:
    explicit Hooks(bool saves) : saves_(saves) {}
    void begin(strategy::StepContext& step) override { (void)step.own_group(layout::Axis::dp, step.device); }
    void after_step(strategy::StepContext& step) override {
      auto& group = step.own_group(layout::Axis::dp, step.device);
      if (step.number % 3 == 0) {
        sum_ = step.parts.front().master.narrow(0, 0, 4).clone().mul_(1 + group.rank());
        pending_ = group.start_all_reduce(sum_, comm::ReduceOp::sum, "a number");
      }
      if (step.number % 3 != 2) return;
      finish(step);
      const auto mean = kept(step) / group.size();
      for (auto& part : step.parts) part.master.mul_(1 + 1e-3 * mean.tanh().sum().item<double>());
    }
    void before_save(strategy::StepContext& step) override {
      if (saves_) finish(step);
    }

   private:
    static at::Tensor kept(strategy::StepContext& step) { return step.state->tensor("sum", {4}, at::kDouble); }
    void finish(strategy::StepContext& step) {
      if (!pending_) return;
      pending_->wait();
      pending_.reset();
      kept(step).copy_(sum_);
    }
    bool saves_;
    at::Tensor sum_;
    std::unique_ptr<comm::Pending> pending_;
  };
};

std::vector<plugin::Registration> types() {
  return {testing::type<strategy::Strategy, Watches, HookOptions>("strategy", "watches"),
          testing::type<strategy::Strategy, Shares, HookOptions>("strategy", "shares"),
          testing::type<strategy::Strategy, Halves, HookOptions>("strategy", "halves"),
          testing::type<strategy::Strategy, Insists, HookOptions>("strategy", "insists"),
          testing::type<strategy::Strategy, Overlaps, HookOptions>("strategy", "overlaps")};
}

constexpr std::int64_t steps = 6;
constexpr std::int64_t saved_after = 3;

testing::Setting with(const std::string& tables, int world, std::vector<std::string> overrides = {}) {
  overrides.emplace_back("run.deterministic=true");
  return {.world = world, .config = tables, .overrides = std::move(overrides), .steps = steps, .types = types()};
}

constexpr const char* full_shard = "[strategy.fsdp]\nmode = \"full_shard\"\n";
constexpr const char* offload = "[strategy.zero]\nstage = 1\noffload_optimizer = \"cpu\"\n";

}  // namespace

TEST_CASE("begin comes before the first update, with the same masters on all ranks, and again after a resume") {
  const auto setting = with("[strategy.watches]\napart = true\n", 2);
  seen.clear();
  (void)testing::train_resumed(setting, saved_after, setting);
  for (const int rank : {0, 1}) {
    const auto begins = seen.of(rank, "begin");
    const auto after = seen.of(rank, "after_step");
    const auto saves = seen.of(rank, "before_save");
    REQUIRE(begins.size() == 2);
    REQUIRE(after.size() == steps);
    REQUIRE(saves.size() == 1);
    CHECK(begins[0].number == -1);
    CHECK(begins[1].number == saved_after - 1);
    CHECK(saves[0].number == saved_after - 1);
    // What was saved is what begin() sees: masters and both moments, each rank its own.
    CHECK(equal(begins[1].tensors, after[saved_after - 1].tensors));
    CHECK(equal(begins[1].tensors, saves[0].tensors));
    CHECK_FALSE(equal(begins[0].tensors, begins[1].tensors));
    CHECK(begins[0].tensors.size() % 3 == 0);
  }
  CHECK(equal(seen.of(0, "begin")[0].tensors, seen.of(1, "begin")[0].tensors));
  // An anchor from the first after_step() would be another one on each rank.
  CHECK_FALSE(equal(seen.of(0, "after_step")[0].tensors, seen.of(1, "after_step")[0].tensors));
}

TEST_CASE("state of records survives a change of mesh and of sharding bit for bit; a rank's own does not") {
  const std::string plain = "[strategy.shares]\n";
  const std::string apart = "[strategy.shares]\napart = true\n";
  struct Change {
    std::string from, to;
    int before, after;
  };
  for (const auto& change : std::vector<Change>{{plain, plain, 2, 4},
                                                {plain + full_shard, plain, 2, 4},
                                                {plain, plain + full_shard, 4, 3},
                                                {plain + full_shard, plain + offload, 3, 3},
                                                {apart, apart, 2, 4},
                                                {apart, plain + full_shard, 3, 2}}) {
    INFO(change.from << " on " << change.before << ", then " << change.to << " on " << change.after);
    seen.clear();
    (void)testing::train_resumed(with(change.from, change.before), saved_after,
                                 with(change.to, change.after, {"checkpoint.accept=[\"strategy.shares\"]"}));
    CHECK(seen.compared > change.after);
    CHECK(seen.wrong == 0);
    CHECK(seen.own_is_new == change.before + (change.before == change.after ? 0 : change.after));
  }
}

TEST_CASE("half of a state, or one that its strategy insists on, is refused on another mesh") {
  const auto halves = with("[strategy.halves]\n", 2);
  const auto on_three = [](const char* name, std::vector<std::string> overrides = {}) {
    return with(cat("[strategy.", name, "]\n"), 3, std::move(overrides));
  };
  CHECK_THROWS_WITH(testing::train_resumed(halves, saved_after, on_three("halves")),
                    Contains("strategy 'halves' has saved tensors of each rank of the mesh world 2") &&
                        Contains("('sum'), which would start afresh on world 3") &&
                        Contains("while those of records come back") && Contains("resume on world 2") &&
                        Contains("checkpoint.accept = [\"strategy.halves.state\"]"));
  const auto insists = with("[strategy.insists]\n", 2);
  CHECK_THROWS_WITH(testing::train_resumed(insists, saved_after, on_three("insists")),
                    Contains("strategy 'insists' has saved tensors of each rank of the mesh world 2") &&
                        Contains("it does not continue without them"));
  CHECK_NOTHROW(testing::train_resumed(halves, saved_after, with("[strategy.halves]\n" + std::string(full_shard), 2)));
  CHECK_NOTHROW(testing::train_resumed(halves, saved_after,
                                       on_three("halves", {"checkpoint.accept=[\"strategy.halves.state\"]"})));
}

TEST_CASE("a run resumes bit for bit with an exchange under way") {
  const auto setting = with("[strategy.overlaps]\n", 3);
  const auto straight = testing::train(setting);
  for (const std::int64_t k : {1, 2, 3, 4}) {
    INFO("after step " << k);
    CHECK(testing::differences(testing::train_resumed(setting, k, setting), straight, 0) == "");
  }
  // Without before_save what is under way is lost.
  const auto forgets = with("[strategy.overlaps]\nsaves = false\n", 3);
  CHECK(testing::differences(testing::train_resumed(forgets, 4, forgets), straight, 0) != "");
}

}  // namespace strategy_hooks_test
