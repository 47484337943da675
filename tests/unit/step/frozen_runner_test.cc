// A model that is not trained: its forwards, and how long its head's matrix stays.
#include "step/frozen_runner.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>
#include <capstan/base/error.h>
#include <capstan_catch.h>

namespace frozen_runner_test {

using namespace capstan;

namespace {

using Events = std::vector<std::string>;

class Recorder : public strategy::UnitHooks {
 public:
  Recorder(Events& events, std::string name) : events_(events), name_(std::move(name)) {}
  void before_forward() override { events_.push_back("before " + name_); }
  void after_forward() override {
    CHECK_FALSE(at::GradMode::is_enabled());
    events_.push_back("after " + name_);
  }

 private:
  Events& events_;
  std::string name_;
};

class Body : public nn::Unit {
 public:
  Body() : Unit("body") {}
  nn::Hidden forward(nn::Hidden hidden, const nn::Batch& batch, nn::KVCache*) override {
    CHECK_FALSE(at::GradMode::is_enabled());
    hidden.states = batch.tokens.to(at::kDouble).unsqueeze(-1).expand({-1, -1, 3});
    return hidden;
  }
};

class Head : public nn::Unit {
 public:
  Head() : Unit("head"), head_(*this, "lm_head", add_record("lm_head.weight", {5, 3}, layout::Init::zeros(), true)) {
    head_.weight()->bind(at::arange(15, at::kDouble).view({5, 3}));
  }
  nn::Hidden forward(nn::Hidden hidden, const nn::Batch& batch, nn::KVCache*) override {
    hidden.states = head_.forward(hidden.states, batch);
    return hidden;
  }

 private:
  nn::VocabularyHead head_;
};

nn::Batch batch(nn::HeadOutput output) {
  nn::Batch batch;
  batch.tokens = batch.labels = at::tensor({1, 2}, at::kLong).view({1, 2});
  batch.pass.output = output;
  return batch;
}

}  // namespace

TEST_CASE("after a forward that gave states the last unit stays gathered until it is released, or the next forward") {
  Body body;
  Head head;
  step::FrozenRunner runner({&body, &head}, "mine");
  Events events;
  for (std::size_t i = 0; i < 2; ++i) runner.add_hooks(i, std::make_unique<Recorder>(events, i == 0 ? "body" : "head"));
  const Events around_body{"before body", "after body", "before head"};
  CHECK(runner.forward(batch(nn::HeadOutput::states)).sizes() == at::IntArrayRef({2, 3}));
  CHECK(events == around_body);
  CHECK(runner.head().weight()->value().size(0) == 5);
  runner.release();
  runner.release();
  CHECK(events.back() == "after head");
  CHECK(events.size() == 4);
  events.clear();
  (void)runner.forward(batch(nn::HeadOutput::states));
  (void)runner.forward(batch(nn::HeadOutput::log_probabilities));
  CHECK(events == Events{"before body", "after body", "before head", "after head", "before body", "after body",
                         "before head", "after head"});
}

TEST_CASE("a model without a head of its own kind has no matrix to compare with") {
  Body body;
  step::FrozenRunner runner({&body}, "mine");
  CHECK_THROWS_WITH(runner.head(), Contains("unit body") && Contains("has 0 of them"));
}

}  // namespace frozen_runner_test
