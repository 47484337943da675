// When the runner calls hooks, and that it changes nothing of what autograd computes.
#include "step/unit_runner.h"
#include <ATen/core/grad_mode.h>
#include <capstan/comm/communicator.h>
#include <capstan_catch.h>
#include <torch/csrc/autograd/autograd.h>

#include <algorithm>

#include "strategy/tiny_units.h"

namespace unit_runner_test {

using namespace capstan;
using namespace capstan::testing;
using step::UnitRunner;

namespace {

using Events = std::vector<std::string>;

/// Writes what is called to a list, then calls `on_event`.
class Recorder : public strategy::UnitHooks {
 public:
  Recorder(Events& events, std::string name, std::function<void(const std::string&)> on_event = {})
      : events_(events), name_(std::move(name)), on_event_(std::move(on_event)) {}
  void before_forward() override { note("before_forward "); }
  void after_forward() override { note("after_forward "); }
  void before_backward() override { note("before_backward "); }
  void after_backward() override { note("after_backward "); }
  void end_backward() override { note("end_backward "); }

 private:
  void note(const std::string& what) {
    events_.push_back(what + name_);
    if (on_event_) on_event_(events_.back());
  }
  Events& events_;
  std::string name_;
  std::function<void(const std::string&)> on_event_;
};

struct Shape {
  std::vector<bool> trainable{true, true, true, true};
  bool sums = false;
  double dropout = 0;
};

/// table, layers, head; as many as `trainable` says.
TinyChain make_chain(const Shape& shape = {}) {
  const std::size_t last = shape.trainable.size() - 1;
  TinyChain chain;
  chain.push_back(std::make_unique<TinyTable>(tiny_weight("table", {7, 5}, shape.trainable[0]), shape.sums));
  for (std::size_t i = 1; i < last; ++i) {
    chain.push_back(std::make_unique<TinyLayer>("layer" + std::to_string(i), shape.trainable[i], TinyLayer::Sizes{},
                                                shape.dropout));
  }
  chain.push_back(std::make_unique<TinyHead>(tiny_weight("head", {6, 5}, shape.trainable[last])));
  bind_leaves(chain);
  return chain;
}

void watch(UnitRunner& runner, Events& events, const std::function<void(const std::string&)>& on_event = {}) {
  for (std::size_t i = 0; i < runner.units().size(); ++i) {
    runner.add_hooks(i, std::make_unique<Recorder>(events, runner.units()[i]->name(), on_event));
  }
}

at::Tensor one() { return at::ones({}, at::kDouble); }

std::map<std::string, at::Tensor> plain_gradients(const TinyChain& chain, const nn::Batch& batch) {
  torch::autograd::backward({plain_loss(chain, batch)}, {one()});
  return take_gradients(chain);
}

void forward_backward(UnitRunner& runner, const nn::Batch& batch) {
  runner.backward(runner.forward(batch).states, one());
}

Events backward_part(const Events& events) {
  return {std::find_if(events.begin(), events.end(), [](const auto& e) { return e.rfind("before_backward", 0) == 0; }),
          events.end()};
}

}  // namespace

TEST_CASE("who asks sees what comes out of each unit, in order, with and without gradients") {
  const auto chain = make_chain({{true, true, true}});
  UnitRunner runner(pointers(chain));
  const at::AutoGradMode mode(GENERATE(false, true));
  std::vector<std::size_t> order;
  std::vector<at::Tensor> seen;
  step::MicroContext context{&runner.stages().stages.front(), tiny_batch(0)};
  runner.forward(context, [&](std::size_t unit, const nn::Hidden& output) {
    order.push_back(unit);
    seen.push_back(output.states.detach());
  });
  CHECK(order == std::vector<std::size_t>{0, 1, 2});
  REQUIRE(seen.size() == 3);
  CHECK(at::equal(seen.back(), context.out.states.detach()));
  nn::Hidden by_hand;
  const at::NoGradGuard no_grad;
  for (std::size_t i = 0; i < 3; ++i) {
    by_hand = chain[i]->forward(std::move(by_hand), tiny_batch(0), nullptr);
    CHECK(at::equal(seen[i], by_hand.states));
  }
}

TEST_CASE("hooks: order over three units with two owners, the first added outermost") {
  const auto chain = make_chain({{true, true, true}});
  UnitRunner runner(pointers(chain));
  Events events;
  for (std::size_t i = 0; i < 3; ++i) {
    runner.add_hooks(i, std::make_unique<Recorder>(events, "outer " + chain[i]->name()));
    runner.add_hooks(i, std::make_unique<Recorder>(events, "inner " + chain[i]->name()));
  }
  Events expected;
  const auto before = [&](const std::string& phase, const std::string& unit) {
    expected.push_back("before_" + phase + " outer " + unit);
    expected.push_back("before_" + phase + " inner " + unit);
  };
  const auto after = [&](const std::string& phase, const std::string& unit) {
    expected.push_back("after_" + phase + " inner " + unit);
    expected.push_back("after_" + phase + " outer " + unit);
  };
  for (const char* unit : {"table", "layer1", "head"}) {
    before("forward", unit);
    after("forward", unit);
  }
  // The table has no input with a gradient: its after_backward comes when all of backward is done.
  for (const char* unit : {"head", "layer1", "table"}) {
    before("backward", unit);
    after("backward", unit);
  }
  for (const char* unit : {"table", "layer1", "head"}) {
    expected.push_back(std::string("end_backward outer ") + unit);
    expected.push_back(std::string("end_backward inner ") + unit);
  }
  forward_backward(runner, tiny_batch(0));
  CHECK(events == expected);
  // A second micro-step is the same again.
  auto twice = expected;
  twice.insert(twice.end(), expected.begin(), expected.end());
  forward_backward(runner, tiny_batch(1));
  CHECK(events == twice);
}

TEST_CASE("after_backward: the unit's own gradients are there, those of units before it are not") {
  const auto chain = make_chain();
  UnitRunner runner(pointers(chain));
  Events events;
  std::vector<std::string> seen;
  watch(runner, events, [&](const std::string& event) {
    if (event.rfind("after_backward", 0) != 0) return;
    std::string with_gradient;
    for (const auto& unit : chain) {
      const auto& weights = unit->weights();
      const auto has = [](const auto& weight) { return weight->value().grad().defined(); };
      const auto count = std::count_if(weights.begin(), weights.end(), has);
      if (count != 0)
        with_gradient += " " + unit->name() + (count == static_cast<std::ptrdiff_t>(weights.size()) ? "" : " in part");
    }
    seen.push_back(event + ":" + with_gradient);
  });
  forward_backward(runner, tiny_batch(0));
  CHECK(seen == std::vector<std::string>{"after_backward head: head", "after_backward layer2: layer2 head",
                                         "after_backward layer1: layer1 layer2 head",
                                         "after_backward table: table layer1 layer2 head"});
}

TEST_CASE("gradients are bit-equal to the chain without a runner, also over two micro-steps and with running sums") {
  const bool sums = GENERATE(false, true);
  const auto chain = make_chain({{true, true, true, true}, sums, 0.3});
  const auto first = plain_gradients(chain, tiny_batch(0));
  auto both = plain_gradients(chain, tiny_batch(1));
  REQUIRE(first.size() == 8);
  CHECK(!bit_equal(first, both));
  for (auto& [name, gradient] : both) gradient = first.at(name) + gradient;
  UnitRunner runner(pointers(chain));
  Events events;
  watch(runner, events);
  forward_backward(runner, tiny_batch(0));
  forward_backward(runner, tiny_batch(1));
  CHECK(bit_equal(take_gradients(chain), both));
}

TEST_CASE("the gradient of backward is the seed's") {
  const auto chain = make_chain();
  torch::autograd::backward({plain_loss(chain, tiny_batch(0))}, {one() / 3});
  const auto expected = take_gradients(chain);
  UnitRunner runner(pointers(chain));
  runner.backward(runner.forward(tiny_batch(0)).states, one() / 3);
  CHECK(bit_equal(take_gradients(chain), expected));
}

TEST_CASE("frozen units: no backward hooks before the first trainable one, right gradients after it") {
  const auto trainable =
      GENERATE(std::vector<bool>{false, true, true, true}, std::vector<bool>{false, false, true, true},
               std::vector<bool>{true, false, true, true}, std::vector<bool>{false, true, false, true},
               std::vector<bool>{true, true, true, false}, std::vector<bool>{false, true, false, false},
               std::vector<bool>{false, false, false, true});
  const bool sums = GENERATE(false, true);
  const auto chain = make_chain({trainable, sums, 0.3});
  const auto expected = plain_gradients(chain, tiny_batch(0));
  UnitRunner runner(pointers(chain));
  Events events;
  watch(runner, events);
  forward_backward(runner, tiny_batch(0));
  CHECK(bit_equal(take_gradients(chain), expected));

  const auto first = static_cast<std::size_t>(std::find(trainable.begin(), trainable.end(), true) - trainable.begin());
  Events backward;
  for (std::size_t i = chain.size(); i-- > first;) {
    backward.push_back("before_backward " + chain[i]->name());
    backward.push_back("after_backward " + chain[i]->name());
  }
  for (std::size_t i = first; i < chain.size(); ++i) backward.push_back("end_backward " + chain[i]->name());
  CHECK(backward_part(events) == backward);
  CHECK(events.size() == 2 * chain.size() + backward.size());
}

TEST_CASE("the hidden state requires grad from the first trainable unit on, and not before") {
  class Looker : public TinyUnit {
   public:
    Looker(const std::string& name, bool trainable, std::vector<bool>& seen)
        : TinyUnit(name), weight_(add(tiny_weight(name, {5}, trainable))), seen_(seen) {}

   private:
    nn::Hidden compute(nn::Hidden hidden, const nn::Batch&) override {
      seen_.push_back(hidden.states.requires_grad());
      hidden.states = hidden.states * weight_->value();
      return hidden;
    }
    nn::WeightPtr weight_;
    std::vector<bool>& seen_;
  };
  std::vector<bool> seen;
  TinyChain chain;
  chain.push_back(std::make_unique<TinyTable>(tiny_weight("table", {7, 5}, false), false));
  chain.push_back(std::make_unique<Looker>("frozen", false, seen));
  chain.push_back(std::make_unique<Looker>("first", true, seen));
  chain.push_back(std::make_unique<Looker>("after", false, seen));
  chain.push_back(std::make_unique<TinyHead>(tiny_weight("head", {6, 5}, true)));
  bind_leaves(chain);
  UnitRunner runner(pointers(chain));
  CHECK(runner.forward(tiny_batch(0)).states.requires_grad());
  CHECK(seen == std::vector<bool>{false, true, true});
}

TEST_CASE("recompute of every subset of units: bit-equal gradients, the same hook calls, forward run twice") {
  const bool sums = GENERATE(false, true);
  const bool table_trains = GENERATE(false, true);
  const Shape shape{{table_trains, true, false, true, true}, sums, 0.3};
  const auto reference_chain = make_chain(shape);
  UnitRunner reference(pointers(reference_chain));
  Events reference_events;
  watch(reference, reference_events);
  forward_backward(reference, tiny_batch(0));
  forward_backward(reference, tiny_batch(1));
  const auto expected = take_gradients(reference_chain);
  REQUIRE(expected.size() == (table_trains ? 8U : 7U));
  for (unsigned subset = 1; subset < 32; ++subset) {
    const auto chain = make_chain(shape);
    UnitRunner runner(pointers(chain));
    Events events;
    watch(runner, events);
    for (std::size_t i = 0; i < chain.size(); ++i) runner.set_recompute(i, (subset >> i & 1U) != 0);
    forward_backward(runner, tiny_batch(0));
    forward_backward(runner, tiny_batch(1));
    INFO("sums " << sums << " table trains " << table_trains << " subset " << subset);
    CHECK(bit_equal(take_gradients(chain), expected));
    CHECK(events == reference_events);
    for (std::size_t i = 0; i < chain.size(); ++i) {
      const bool again =
          (subset >> i & 1U) != 0 && (i > 0 || table_trains);  // nothing to recompute before the first trainable
      CHECK(chain[i]->forwards == (again ? 4 : 2));
    }
  }
}

TEST_CASE("a recomputed unit runs between before_backward and after_backward") {
  const auto chain = make_chain({{true, true, true}});
  UnitRunner runner(pointers(chain));
  Events events;
  watch(runner, events);
  for (std::size_t i = 0; i < 3; ++i) {
    runner.set_recompute(i, true);
    chain[i]->on_forward = [&events, name = chain[i]->name()](int) { events.push_back("run " + name); };
  }
  forward_backward(runner, tiny_batch(0));
  CHECK(backward_part(events) == Events{"before_backward head", "run head", "after_backward head",
                                        "before_backward layer1", "run layer1", "after_backward layer1",
                                        "before_backward table", "run table", "after_backward table",
                                        "end_backward table", "end_backward layer1", "end_backward head"});
}

TEST_CASE("outside grad mode only forward hooks are called, and nothing is recorded") {
  const auto chain = make_chain({{true, true, true}});
  UnitRunner runner(pointers(chain));
  Events events;
  watch(runner, events);
  runner.set_recompute(1, true);
  const auto plain = plain_loss(chain, tiny_batch(0));
  const at::NoGradGuard no_grad;
  const auto loss = runner.forward(tiny_batch(0)).states;
  CHECK(at::equal(loss, plain));
  CHECK(!loss.requires_grad());
  CHECK(events == Events{"before_forward table", "after_forward table", "before_forward layer1", "after_forward layer1",
                         "before_forward head", "after_forward head"});
  CHECK(chain[1]->forwards == 2);  // one of them is plain_loss's
}

TEST_CASE("what a hook throws in backward comes out as it is, what a recomputed unit throws with its name") {
  struct Broken : std::runtime_error {
    using std::runtime_error::runtime_error;
  };
  const auto chain = make_chain({{true, true, true}});
  UnitRunner runner(pointers(chain));
  Events events;
  SECTION("hooks") {
    const std::string when = GENERATE("before_backward head", "after_backward layer1", "before_backward table",
                                      "after_backward table", "end_backward layer1");
    watch(runner, events, [&](const std::string& event) {
      if (event == when) throw Broken("broken at " + event);
    });
    const auto loss = runner.forward(tiny_batch(0)).states;
    try {
      runner.backward(loss, one());
      FAIL("nothing was thrown");
    } catch (const Broken& broken) {
      CHECK(broken.what() == "broken at " + when);
    }
    CHECK(events.back() == when);
  }
  SECTION("a unit") {
    const std::size_t unit = GENERATE(0, 1, 2);
    runner.set_recompute(unit, true);
    chain[unit]->on_forward = [](int count) {
      if (count == 2) throw Error("the unit is broken", "repair it", "here");
    };
    const auto loss = runner.forward(tiny_batch(0)).states;
    try {
      runner.backward(loss, one());
      FAIL("nothing was thrown");
    } catch (const Error& error) {
      CHECK(error.what() ==
            "here: the unit is broken\n    fix: repair it\n    while the model was in phase forward of unit " +
                chain[unit]->name());
    }
  }
}

TEST_CASE("what a unit throws in forward names the model and the unit, but for a peer's failure") {
  const auto chain = make_chain({{false, true, true}});
  UnitRunner runner(pointers(chain), "mine");
  const auto message = [&](std::size_t unit, const std::function<void(int)>& on_forward) {
    chain[unit]->on_forward = on_forward;
    std::string text;
    try {
      runner.forward(tiny_batch(0));
    } catch (const Error& error) {
      text = error.what();
    }
    chain[unit]->on_forward = {};
    return text;
  };
  for (const std::size_t unit : {0, 1}) {
    CHECK(message(unit, [](int) { throw std::runtime_error("no"); }) ==
          "no\n    while plugin 'mine' was in phase forward of unit " + chain[unit]->name());
    CHECK(message(unit, [](int) { throw comm::PeerFailed("rank 3 failed: no", 3); }) == "rank 3 failed: no");
  }
}

TEST_CASE("after a backward that failed, the next forward and backward are whole again") {
  const auto chain = make_chain({{true, true, true}});
  const auto expected = plain_gradients(chain, tiny_batch(0));
  UnitRunner runner(pointers(chain));
  Events events;
  bool broken = true;
  const std::string when = GENERATE("before_backward layer1", "after_backward layer1");
  watch(runner, events, [&](const std::string& event) {
    if (broken && event == when) throw std::runtime_error("once");
  });
  CHECK_THROWS_WITH(forward_backward(runner, tiny_batch(0)), Contains("once"));
  broken = false;
  take_gradients(chain);
  events.clear();
  forward_backward(runner, tiny_batch(0));
  CHECK(bit_equal(take_gradients(chain), expected));
  CHECK(events.size() == 15);
}

}  // namespace unit_runner_test
