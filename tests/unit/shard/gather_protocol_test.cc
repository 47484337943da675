// What the hooks around units ask of an executor, call by call.
#include "shard/gather_protocol.h"

#include <ATen/core/grad_mode.h>
#include <capstan_catch.h>

#include <algorithm>
#include <string>
#include <utility>

#include "shard/rig.h"

namespace gather_protocol_test {

using namespace capstan;
using namespace capstan::testing;

namespace {

// Buckets of the tiny chain: 0 table (tied: the head uses it too), 1 layer1, 2 layer2, 3 the head's own.
class Recorder : public shard::Executor {
 public:
  void prefetch(std::size_t bucket, bool keep) override { note(keep ? "prefetch, keep " : "prefetch ", bucket); }
  void acquire(std::size_t bucket) override { note("acquire ", bucket); }
  void release(std::size_t bucket) override { note("release ", bucket); }
  void reduce(std::size_t bucket, const shard::Reduction& how) override {
    note("reduce ", bucket);
    reductions.push_back(how);
  }
  std::vector<std::string> taken() { return std::exchange(calls_, {}); }
  std::vector<shard::Reduction> reductions;

 private:
  void note(const std::string& call, std::size_t bucket) { calls_.push_back(call + std::to_string(bucket)); }
  std::vector<std::string> calls_;
};

struct Case {
  explicit Case(int stage, int offload = 0, const std::function<void(shard::EngineOptions&)>& change = {})
      : chain(rig_chain({})),
        options(options_of(stage, offload, change)),
        plan(shard::make_plan(pointers(chain), options)),
        protocol(plan, options, recorder) {
    for (std::size_t i = 0; i < chain.size(); ++i) hooks.push_back(protocol.hooks(i));
  }
  static shard::EngineOptions options_of(int stage, int offload,
                                         const std::function<void(shard::EngineOptions&)>& change) {
    shard::EngineOptions options;
    options.mesh = layout::Mesh({{layout::Axis::dp, 2}});
    set_stage(options.policy, stage, offload);
    if (change) change(options);
    return options;
  }
  void forward() {
    for (auto& unit : hooks) {
      unit->before_forward();
      unit->after_forward();
    }
  }
  void backward() {
    for (std::size_t i = hooks.size(); i-- > 0;) {
      hooks[i]->before_backward();
      hooks[i]->after_backward();
    }
    for (auto& unit : hooks) unit->end_backward();
  }

  TinyChain chain;
  shard::EngineOptions options;
  shard::ShardPlan plan;
  Recorder recorder;
  shard::GatherProtocol protocol;
  std::vector<std::unique_ptr<strategy::UnitHooks>> hooks;
};

using Calls = std::vector<std::string>;

}  // namespace

TEST_CASE("stage 3: each run is gathered ahead, released, and gathered again for its backward") {
  Case test(3);
  test.forward();
  // The head is the first of backward: it stays, the table with it.
  CHECK(test.recorder.taken() == Calls{"prefetch, keep 0", "acquire 0", "prefetch, keep 1", "release 0", "acquire 1",
                                       "prefetch, keep 2", "release 1", "acquire 2", "prefetch 0", "prefetch 3",
                                       "release 2", "acquire 0", "acquire 3"});
  test.backward();
  CHECK(test.recorder.taken() == Calls{"prefetch 2", "reduce 3", "release 0", "release 3", "acquire 2", "prefetch 1",
                                       "reduce 2", "release 2", "acquire 1", "prefetch 0", "reduce 1", "release 1",
                                       "acquire 0", "release 0", "reduce 0"});
}

TEST_CASE("evaluation keeps nothing, and asks for no backward") {
  Case test(3);
  const at::NoGradGuard no_grad;
  test.forward();
  CHECK(test.recorder.taken() == Calls{"prefetch 0", "acquire 0", "prefetch 1", "release 0", "acquire 1", "prefetch 2",
                                       "release 1", "acquire 2", "prefetch 0", "prefetch 3", "release 2", "acquire 0",
                                       "acquire 3", "release 0", "release 3"});
}

TEST_CASE("an evaluation that holds gathers each bucket once, and releases all of them at its end") {
  const bool ahead = GENERATE(true, false);
  Case test(3, 0, [&](shard::EngineOptions& options) { options.policy.forward_prefetch = ahead; });
  const at::NoGradGuard no_grad;
  for (int evaluation = 0; evaluation < 2; ++evaluation) {
    auto held = test.protocol.hold();
    CHECK(test.recorder.taken() == Calls{});
    CHECK_FALSE(test.protocol.reads_locally());
    test.forward();
    CHECK(test.recorder.taken() == Calls{"prefetch 0", "acquire 0", "prefetch 1", "acquire 1", "prefetch 2",
                                         "acquire 2", "prefetch 3", "acquire 3"});
    CHECK(test.protocol.reads_locally());
    CHECK_FALSE(test.protocol.stays_in_place());  // a step's micro-step would find other memory
    { const auto inner = test.protocol.hold(); }
    test.forward();
    CHECK(test.recorder.taken() == Calls{});
    CHECK_THROWS(test.protocol.invalidate(1));  // an update now would leave what is held as it was
    held.reset();
    CHECK(test.recorder.taken() == Calls{"release 0", "release 1", "release 2", "release 3"});
    CHECK_FALSE(test.protocol.reads_locally());
    for (std::size_t b = 0; b < test.plan.buckets.size(); ++b) test.protocol.invalidate(b);
  }
}

TEST_CASE("what is not sharded is gathered after each update only, whether an evaluation holds or not") {
  Case test(1);
  const at::NoGradGuard no_grad;
  test.forward();
  CHECK(test.recorder.taken().size() == 2 * test.plan.buckets.size());
  CHECK(test.protocol.reads_locally());
  {
    const auto held = test.protocol.hold();
    test.forward();
  }
  CHECK(test.recorder.taken() == Calls{});
  CHECK(test.protocol.reads_locally());
}

TEST_CASE("a tied bucket that two users hold is released by the last") {
  Case test(3, 0, [](shard::EngineOptions& options) { options.policy.reshard_after_forward = false; });
  test.forward();
  CHECK(test.recorder.taken() == Calls{"prefetch 0", "acquire 0", "prefetch 1", "acquire 1", "prefetch 2", "acquire 2",
                                       "prefetch 3", "acquire 3"});
  test.backward();
  CHECK(test.recorder.taken() ==
        Calls{"reduce 3", "release 3", "reduce 2", "release 2", "reduce 1", "release 1", "release 0", "reduce 0"});
}

TEST_CASE("stages 1 and 2: parameters are gathered once after an update, and never released") {
  const int stage = GENERATE(1, 2);
  Case test(stage);
  const Calls gathers{"prefetch, keep 0", "acquire 0", "prefetch, keep 1", "acquire 1",
                      "prefetch, keep 2", "acquire 2", "prefetch 3",       "acquire 3"};
  const Calls reduces{"reduce 3", "reduce 2", "reduce 1", "reduce 0"};
  test.forward();
  CHECK(test.recorder.taken() == gathers);
  test.backward();
  CHECK(test.recorder.taken() == reduces);
  test.forward();
  CHECK(test.recorder.taken() == Calls{});
  for (std::size_t b = 0; b < test.plan.buckets.size(); ++b) test.protocol.invalidate(b);
  test.forward();
  CHECK(test.recorder.taken() == gathers);
}

TEST_CASE("nothing sharded: only gradients move") {
  Case test(0);
  test.forward();
  CHECK(test.recorder.taken() == Calls{});
  test.backward();
  CHECK(test.recorder.taken() == Calls{"reduce 3", "reduce 2", "reduce 1", "reduce 0"});
}

TEST_CASE("accumulation and offload: when gradients are added up, summed and sent") {
  const auto reduce = GENERATE(shard::ReduceWhen::step, shard::ReduceWhen::micro_step);
  const bool once = reduce == shard::ReduceWhen::step;
  const int offload = GENERATE(0, 1);
  Case test(2, offload, [&](shard::EngineOptions& options) {
    options.accumulation = 3;
    options.reduce = reduce;
  });
  for (std::int64_t micro = 0; micro < 3; ++micro) {
    test.protocol.begin_backward(micro);
    test.forward();
    test.backward();
  }
  REQUIRE(test.recorder.reductions.size() == 12);
  for (std::size_t i = 0; i < test.recorder.reductions.size(); ++i) {
    const auto& how = test.recorder.reductions[i];
    const auto micro = i / 4;
    CHECK(how.micro_step == static_cast<std::int64_t>(micro));
    CHECK(how.first == (micro == 0));
    CHECK(how.last == (micro == 2));
    CHECK(how.accumulates == once);
    CHECK(how.sums == (!once || micro == 2));
    CHECK(how.offloads == (how.sums && offload == 1));
  }
}

TEST_CASE("a backward that leaves gradients of weights releases, and those are reduced when they are there") {
  Case test(3, 0, [](shard::EngineOptions& options) {
    options.accumulation = 2;
    options.backwards = {{0, false}, {0, false}, {0, true}, {0, true}};
  });
  for (std::int64_t backward = 0; backward < 2; ++backward) {
    test.protocol.begin_backward(backward);
    test.forward();
    for (std::size_t i = test.hooks.size(); i-- > 0;) {
      test.hooks[i]->before_backward();
      test.hooks[i]->after_backward();
    }
  }
  CHECK(test.recorder.reductions.empty());
  const auto calls = test.recorder.taken();
  CHECK(std::find(calls.begin(), calls.end(), "release 1") != calls.end());
  for (std::int64_t backward = 2; backward < 4; ++backward) {
    test.protocol.begin_backward(backward);
    for (std::size_t i = test.hooks.size(); i-- > 0;) test.hooks[i]->after_weight_gradients();
    for (auto& unit : test.hooks) unit->end_backward();
  }
  CHECK(test.recorder.taken() ==
        Calls{"reduce 3", "reduce 2", "reduce 1", "reduce 0", "reduce 3", "reduce 2", "reduce 1", "reduce 0"});
  for (std::size_t i = 0; i < 8; ++i) {
    const auto& how = test.recorder.reductions[i];
    CHECK(how.micro_step == static_cast<std::int64_t>(i / 4));
    CHECK(how.first == (i < 4));
    CHECK(how.last == (i >= 4));
  }
}

TEST_CASE(
    "gathered once a step: each bucket stays from its first use to its last, and is gathered again after the update") {
  Case test(3, 0, [](shard::EngineOptions& options) {
    options.accumulation = 2;
    options.gathers_once = true;
  });
  const Calls gathers{"prefetch, keep 0", "acquire 0", "prefetch, keep 1", "acquire 1",
                      "prefetch, keep 2", "acquire 2", "prefetch 3",       "acquire 3"};
  for (int step = 0; step < 2; ++step) {
    test.protocol.begin_backward(0);
    test.forward();
    CHECK(test.recorder.taken() == gathers);
    test.backward();
    CHECK(test.recorder.taken() == Calls{"reduce 3", "reduce 2", "reduce 1", "reduce 0"});
    {
      const at::NoGradGuard no_grad;  // a pass that only the objective needs
      test.forward();
    }
    CHECK(test.recorder.taken() == Calls{});
    CHECK_THROWS(test.protocol.invalidate(1));  // an update now would leave what is gathered as it was
    test.protocol.begin_backward(1);
    test.forward();
    CHECK(test.recorder.taken() == Calls{});
    test.backward();
    CHECK(test.recorder.taken() ==
          Calls{"reduce 3", "release 3", "reduce 2", "release 2", "reduce 1", "release 1", "release 0", "reduce 0"});
    for (std::size_t b = 0; b < test.plan.buckets.size(); ++b) test.protocol.invalidate(b);
  }
  const at::NoGradGuard no_grad;
  test.forward();
  CHECK(test.recorder.taken() == Calls{"prefetch 0", "acquire 0", "prefetch 1", "release 0", "acquire 1", "prefetch 2",
                                       "release 1", "acquire 2", "prefetch 0", "prefetch 3", "release 2", "acquire 0",
                                       "acquire 3", "release 0", "release 3"});
}

TEST_CASE("gathered once a step: gradients of weights that come later need no parameters") {
  Case test(3, 0, [](shard::EngineOptions& options) {
    options.accumulation = 2;
    options.gathers_once = true;
    options.backwards = {{0, false}, {0, false}, {0, true}, {0, true}};
  });
  test.forward();
  test.forward();
  test.recorder.taken();
  for (std::int64_t backward = 0; backward < 2; ++backward) {
    CHECK(test.recorder.taken() == Calls{});
    test.protocol.begin_backward(backward);
    for (std::size_t i = test.hooks.size(); i-- > 0;) {
      test.hooks[i]->before_backward();
      test.hooks[i]->after_backward();
    }
  }
  CHECK(test.recorder.taken() == Calls{"release 3", "release 2", "release 1", "release 0"});
}

TEST_CASE("gathered once a step: what is frozen is released after the step's last forward") {
  auto chain = rig_chain({.tied = false});
  for (auto& record : chain[0]->weights().front()->records()) record.trainable = false;
  const auto options = Case::options_of(3, 0, [](auto& changed) {
    changed.accumulation = 2;
    changed.gathers_once = true;
  });
  const auto plan = shard::make_plan(pointers(chain), options);
  Recorder recorder;
  shard::GatherProtocol protocol(plan, options, recorder);
  for (int micro = 0; micro < 2; ++micro) {
    for (std::size_t run = 0; run < plan.runs.size(); ++run) {
      protocol.before_forward(run, true);
      protocol.after_forward(run, true);
    }
    const auto calls = recorder.taken();
    CHECK(std::count(calls.begin(), calls.end(), "release 0") == micro);
    CHECK(calls.size() == (micro == 0 ? 2 * plan.buckets.size() : 1));
    protocol.begin_backward(micro);
    for (std::size_t run = plan.runs.size(); run-- > 1;) {
      protocol.before_backward(run);
      protocol.after_backward(run);
    }
    recorder.taken();
  }
}

TEST_CASE("hooks inside a run of several units do nothing") {
  Case test(3, 0, [](shard::EngineOptions& options) { options.policy.bucket_size.number = 4; });
  REQUIRE(test.plan.runs.size() == 1);
  test.forward();
  test.backward();
  CHECK(test.recorder.taken() == Calls{"prefetch 0", "acquire 0", "reduce 0", "release 0"});
}

TEST_CASE("backward ends in the middle of a run: what is trained there is reduced") {
  auto chain = rig_chain({.tied = false});
  for (auto& record : chain[0]->weights().front()->records()) record.trainable = false;
  for (const auto& weight : chain[1]->weights()) {
    for (auto& record : weight->records()) record.trainable = false;
  }
  const auto options = Case::options_of(3, 0, [](auto& changed) { changed.policy.bucket_size.number = 4; });
  const auto plan = shard::make_plan(pointers(chain), options);
  REQUIRE(plan.buckets.size() == 2);  // frozen, trained
  Recorder recorder;
  shard::GatherProtocol protocol(plan, options, recorder);
  std::vector<std::unique_ptr<strategy::UnitHooks>> hooks;
  for (std::size_t i = 0; i < chain.size(); ++i) hooks.push_back(protocol.hooks(i));
  for (const auto& unit : hooks) {
    unit->before_forward();
    unit->after_forward();
  }
  CHECK(recorder.taken() == Calls{"prefetch 0", "acquire 0", "prefetch 1", "acquire 1"});
  // Only the last two units have a backward.
  for (std::size_t i = hooks.size(); i-- > 2;) {
    hooks[i]->before_backward();
    hooks[i]->after_backward();
  }
  CHECK(recorder.taken() == Calls{"reduce 1", "reduce 0", "release 0", "release 1"});
}

TEST_CASE("a micro-step stays in place where its hooks move nothing but sums, once parameters are gathered") {
  const auto accumulates = [](shard::EngineOptions& options) { options.accumulation = 3; };
  const auto stays = [](const Case& test) { return test.protocol.stays_in_place(); };
  CHECK(stays(Case(0, 0)));
  CHECK(stays(Case(0, 0, accumulates)));
  CHECK(stays(Case(0, 0, [&](auto& options) {
    accumulates(options);
    options.mesh = layout::Mesh();
  })));
  // Each micro-step's sums are added to the earlier ones'.
  CHECK_FALSE(stays(Case(0, 0, [&](auto& options) {
    accumulates(options);
    options.reduce = shard::ReduceWhen::micro_step;
  })));
  Case optimizer(1, 0, accumulates);
  CHECK_FALSE(stays(optimizer));
  optimizer.forward();
  CHECK(stays(optimizer));
  optimizer.protocol.invalidate(1);
  CHECK_FALSE(stays(optimizer));
  // The only micro-step's gradients go from autograd's tensors to shards.
  Case shards_only(1);
  shards_only.forward();
  CHECK_FALSE(stays(shards_only));
  Case all(3, 0, accumulates);
  all.forward();
  CHECK_FALSE(stays(all));
  Case offloaded(1, 1, accumulates);
  offloaded.forward();
  CHECK_FALSE(stays(offloaded));
}

TEST_CASE("gradients that stay autograd's are not the same memory twice: such a micro-step is not in place") {
  const auto alone = [](c10::ScalarType master) {
    return Case(0, 0, [=](shard::EngineOptions& options) {
      options.mesh = layout::Mesh();
      options.precision.master = master;
    });
  };
  CHECK_FALSE(alone(at::kFloat).protocol.stays_in_place());
  CHECK(alone(at::kDouble).protocol.stays_in_place());
}

}  // namespace gather_protocol_test
