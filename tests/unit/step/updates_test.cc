// The loss scale leaves no trace in what is learnt: powers of two round nothing, and an overflow is as if the step had
// not been tried.

#include <capstan/base/text.h>
#include <capstan_catch.h>

#include <algorithm>
#include <cmath>
#include <functional>

#include "step/updates.h"
#include "support/small_run.h"

namespace updates_test {

using namespace capstan;
using capstan::testing::run_small;

namespace {

const c10::Device cpu(c10::kCPU);

setup::LossScaling dynamic(double initial, double min, std::int64_t window) {
  return {true, true, initial, min, window};
}

void check_bit_equal(const std::map<std::string, at::Tensor>& a, const std::map<std::string, at::Tensor>& b) {
  REQUIRE(a.size() == b.size());
  for (const auto& [name, tensor] : b) {
    INFO(name);
    CHECK(at::equal(a.at(name), tensor));
  }
}

at::Tensor numbers(double squared_norm, double loss) { return at::tensor({squared_norm, loss}, at::kDouble); }

using Boxes = std::map<std::string, at::Tensor>;

// One rank: takes the first batch as often as a test wants.
struct Rank {
  job::Job job;
  step::Session session;
  step::Step step;
  step::StepInput input;
  std::int64_t targets = 0;

  Rank(const std::string& file, const std::vector<std::string>& overrides, comm::Communicator& communicator)
      : job(testing::prepare_small(file, overrides, communicator.world().size, communicator.world().rank)),
        session(step::materialise(job, communicator)),
        step(session),
        input(step::Feed(job).draw(0)) {
    auto count = at::tensor(std::vector<std::int64_t>{input.target_tokens}, at::kLong);
    session.world_host->all_reduce(count, comm::ReduceOp::sum, "count");
    targets = count.item<std::int64_t>();
  }
  Boxes boxes() {
    Boxes boxes;
    for (const auto& stored : session.engine->stored_boxes()) boxes[stored.record->name] = stored.value.clone();
    return boxes;
  }
};

// What steps of one rank left. Looked at when all ranks are done: they are threads, and Catch knows one.
struct Trace {
  Boxes before;
  struct StepTrace {
    double grad_norm, loss, scale, skipped;
    std::string state;
    Boxes boxes;
  };
  std::vector<StepTrace> steps;

  void take_step(Rank& rank) {
    auto got = rank.step.run(rank.input, {static_cast<double>(rank.targets)}, 0.01);
    got.read();
    steps.push_back({got.grad_norm(), got.loss_sum(), got.loss_scale(), got.skipped() ? 1.0 : 0.0,
                     rank.step.updates().save(), rank.boxes()});
  }
};

std::string fsdp(const std::string& mode) { return "[strategy.fsdp]\nmode = \"" + mode + "\"\n"; }

// `body` on two in-process ranks.
std::vector<Trace> trace_two(const std::string& strategy, const std::vector<std::string>& overrides,
                             const std::function<void(Rank&, Trace&)>& body) {
  at::set_num_threads(1);
  const auto file = testing::small_config(strategy);
  std::vector<Trace> traces(2);
  comm::run_in_process(2, [&](comm::Communicator& communicator) {
    Rank rank(file, overrides, communicator);
    auto& trace = traces[static_cast<std::size_t>(communicator.world().rank)];
    trace.before = rank.boxes();
    body(rank, trace);
  });
  return traces;
}

}  // namespace

TEST_CASE("a power of two as loss scale changes no bit, with clipping, accumulation and sharding", "[matrix]") {
  const std::string precision = GENERATE(as<std::string>(), "fp32", "fp64");
  const int world = GENERATE(1, 2);
  const std::string mode = GENERATE(as<std::string>(), "full_shard", "no_shard");
  if (world == 1 && mode == "no_shard") return;
  INFO(precision << " world " << world << " " << mode);
  const std::string more = fsdp(mode);
  std::vector<std::string> overrides{"train.precision=" + precision, "train.accumulation=2", "optimizer.clip=0.3"};
  const auto plain = run_small(world, overrides, 6, more);
  CHECK(*std::max_element(plain.norms.begin(), plain.norms.end()) > 0.3);  // clipping acts
  const auto [scale, is_dynamic] = GENERATE(std::pair{1024.0, false}, std::pair{4096.0, true});
  overrides.emplace_back(is_dynamic ? "train.loss_scale=dynamic" : "train.loss_scale=1024");
  if (is_dynamic) {
    overrides.emplace_back("train.loss_scale_init=4096");
    overrides.emplace_back("train.loss_scale_window=2");  // so that it changes on the way
  }
  const auto scaled = run_small(world, overrides, 6, more);
  CHECK(scaled.losses == plain.losses);
  CHECK(scaled.norms == plain.norms);
  check_bit_equal(scaled.weights, plain.weights);
  // The engine's gradients do carry it: the option acted.
  for (const auto& [name, gradient] : plain.gradients) {
    INFO(name);
    CHECK(at::equal(scaled.gradients.at(name), gradient * scale));
  }
}

TEST_CASE("a scale that overflows skips the step on every rank and halves; then the step is as without a scale") {
  const std::string strategy =
      GENERATE(fsdp("full_shard"), fsdp("no_shard"), fsdp("full_shard") + "cpu_offload = true\n",
               "[strategy.zero]\nstage = 2\noffload_optimizer = \"cpu\"\noffload_ratio = 0.5\n");
  INFO(strategy);
  const double initial = std::ldexp(1.0, 140);  // divided by the step's tokens no float32
  const auto traces = trace_two(
      strategy, {"train.precision=fp32", "train.loss_scale=dynamic", "train.loss_scale_init=" + number_text(initial)},
      [](Rank& rank, Trace& trace) {
        do trace.take_step(rank);
        while (trace.steps.back().skipped == 1 && trace.steps.size() < 100);
      });
  const auto plain =
      trace_two(strategy, {"train.precision=fp32"}, [](Rank& rank, Trace& trace) { trace.take_step(rank); });
  for (std::size_t rank = 0; rank < 2; ++rank) {
    const auto& steps = traces[rank].steps;
    REQUIRE(steps.size() >= 2);
    double scale = initial;
    for (std::size_t i = 0; i + 1 < steps.size(); ++i) {
      CHECK(steps[i].skipped == 1);
      CHECK(steps[i].scale == scale);
      scale /= 2;
      CHECK(steps[i].state ==
            cat("{\"updates\":0,\"loss_scale\":{\"scale\":", number_text(scale), ",\"good_steps\":0}}"));
      check_bit_equal(steps[i].boxes, traces[rank].before);
    }
    CHECK(steps.back().skipped == 0);
    CHECK(steps.back().scale == scale);
    CHECK_THAT(steps.back().state, Contains("\"updates\":1,") && Contains("\"good_steps\":1}"));
    const auto& reference = plain[rank].steps.front();
    CHECK(reference.state == "{\"updates\":1}");
    CHECK(reference.scale == 1);
    CHECK(reference.skipped == 0);
    CHECK(steps.back().grad_norm == reference.grad_norm);
    CHECK(steps.back().loss == reference.loss);
    check_bit_equal(steps.back().boxes, reference.boxes);
  }
  CHECK(traces[0].steps.size() == traces[1].steps.size());
}

TEST_CASE("an infinite gradient on one rank skips the step on all of them") {
  const std::string strategy = GENERATE(fsdp("full_shard"), fsdp("no_shard"));
  INFO(strategy);
  const auto traces =
      trace_two(strategy, {"train.precision=fp32", "train.loss_scale=dynamic"}, [](Rank& rank, Trace& trace) {
        bool poison = rank.job.topology.rank == 1;
        rank.session.units[2]->all<nn::Linear>()[3]->after.fill("test", [&](const at::Tensor& y) {
          if (!poison || !y.requires_grad()) return y;
          auto passed = y.view_as(y);
          passed.register_hook([](const at::Tensor& gradient) { return gradient * HUGE_VAL; });
          return passed;
        });
        trace.take_step(rank);
        poison = false;
        trace.take_step(rank);
      });
  for (const auto& trace : traces) {
    CHECK(trace.steps[0].skipped == 1);
    CHECK(trace.steps[0].scale == 65536);
    CHECK(trace.steps[0].state == "{\"updates\":0,\"loss_scale\":{\"scale\":32768.0,\"good_steps\":0}}");
    check_bit_equal(trace.steps[0].boxes, trace.before);
    CHECK(trace.steps[1].skipped == 0);
    CHECK_FALSE(at::equal(trace.steps[1].boxes.at("wte.weight"), trace.before.at("wte.weight")));
  }
}

TEST_CASE("the dynamic scale: halved down to its minimum, doubled after the window, left alone by a bad loss") {
  setup::OptimizerOptions options;
  step::Updates updates(options, dynamic(8, 2, 3), cpu);
  const auto scale = [&] { return updates.loss_scale().value().item<double>(); };
  const double inf = HUGE_VAL;
  std::vector<double> seen;
  // Overflows to the minimum and one more; then two good steps, a bad loss that does not count, the third good one.
  for (const auto& [norm, loss] : std::vector<std::pair<double, double>>{
           {inf, 1}, {inf, 1}, {inf, 1}, {1, 1}, {1, 1}, {inf, std::nan("")}, {1, 1}, {1, 1}, {inf, 1}, {1, 1}}) {
    updates.next(numbers(norm, loss));
    seen.push_back(scale());
  }
  CHECK(seen == std::vector<double>{4, 2, 2, 2, 2, 2, 4, 4, 2, 2});
  CHECK(updates.save() == "{\"updates\":5,\"loss_scale\":{\"scale\":2.0,\"good_steps\":1}}");
}

TEST_CASE("gradients are divided by clip factor and scale together; no float32 means no update") {
  setup::OptimizerOptions options;
  options.clip = 0.5;
  setup::LossScaling fixed;
  fixed.on = true;
  fixed.initial = 1e30;
  step::Updates updates(options, fixed, cpu);
  const auto update = updates.next(numbers(4.0, 1));
  CHECK(update.grad_scale.item<float>() == static_cast<float>((2.0 + 1e-6) / 0.5 * 1e30));
  CHECK(update.skip.item<float>() == 0);
  const auto too_much = updates.next(numbers(1e20, 1));  // a norm of 1e10 at 1e30: beyond 3.4e38
  CHECK(too_much.skip.item<float>() == 1);
  CHECK(updates.save() == "{\"updates\":1}");  // a fixed scale is no state
}

TEST_CASE("a norm up to clip leaves gradients as they are, and a larger one becomes clip") {
  setup::OptimizerOptions options;
  options.clip = 0.5;
  step::Updates updates(options, {}, cpu);
  for (const double norm : {0.0, 0.01, 0.49})
    CHECK(updates.next(numbers(norm * norm, 1)).grad_scale.item<float>() == 1.0F);
  CHECK(updates.next(numbers(1.0, 1)).grad_scale.item<float>() == static_cast<float>((1.0 + 1e-6) / 0.5));
}

TEST_CASE("the state that a checkpoint keeps is taken back, and what follows is the same") {
  setup::OptimizerOptions options;
  const auto rule = dynamic(64, 1, 3);
  step::Updates first(options, rule, cpu);
  for (int i = 0; i < 5; ++i) first.next(numbers(1, 1));
  const auto state = first.save();
  CHECK(state == "{\"updates\":5,\"loss_scale\":{\"scale\":128.0,\"good_steps\":2}}");
  step::Updates second(options, rule, cpu);
  second.restore(state);
  CHECK(second.save() == state);
  first.next(numbers(1, 1));
  const auto update = second.next(numbers(1, 1));
  CHECK(update.count.item<float>() == 6);
  CHECK(second.save() == first.save());
  CHECK(second.save() == "{\"updates\":6,\"loss_scale\":{\"scale\":256.0,\"good_steps\":0}}");
  SECTION("a run without a dynamic scale takes only the count, and the other way round") {
    step::Updates plain(options, {}, cpu);
    plain.restore(state);
    CHECK(plain.save() == "{\"updates\":5}");
    step::Updates again(options, rule, cpu);
    again.restore(plain.save());
    CHECK(again.save() == "{\"updates\":5,\"loss_scale\":{\"scale\":64.0,\"good_steps\":0}}");
  }
  SECTION("what is no such state changes nothing") {
    const auto wrong = GENERATE(as<std::string>(), "", "{}", "{\"updates\":2,\"loss_scale\":{\"scale\":\"x\"}}");
    CHECK_THROWS_WITH(second.restore(wrong), Contains("the state of the updates is not what Capstan writes") &&
                                                 Contains("use another checkpoint"));
    CHECK(second.save() == first.save());
  }
}

}  // namespace updates_test
