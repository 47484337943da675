// The table of attention's kernels: each row against the definition, which row is chosen, and why others are not.
#include "support/attention_rows.h"

#include <capstan_catch.h>

#include "plugins/strategies/recompute/memory.h"
#include "predict/door.h"

namespace attention_rows_test {

using namespace capstan;
using namespace capstan::testing;
using Catch::Matchers::Contains;

namespace {

nn::AttentionRow fake(const std::string& name, nn::LogSumExp log_sum_exp = nn::LogSumExp::none) {
  return {name,
          {},
          [](const nn::AttentionCall&) -> nn::Verdict { return {}; },
          [](const nn::AttentionCall& call) -> nn::AttentionResult { return {call.v + 1}; },
          log_sum_exp};
}

// A call of two tokens and two heads.
struct Small {
  nn::AttentionSpec spec;
  nn::Batch batch;
  at::Tensor x = at::ones({1, 2, 2, 4}, at::kDouble);
  nn::AttentionCall call() {
    batch.positions = at::arange(2, at::kLong).unsqueeze(0);
    nn::AttentionCall made{&spec, x, x, x};
    if (spec.sinks) made.sinks = at::zeros({2}, at::kDouble);
    made.needs_log_sum_exp = spec.sinks;
    made.batch = &batch;
    return made;
  }
};

}  // namespace

TEST_CASE("each row of attention's table gives what the definition says, and the same gradients by name") {
  const auto taken = check_attention_rows(at::kCPU);
  for (const char* name : {"SDPA", "blocks of a window", "masked SDPA", "decode", "plain"}) {
    INFO(name);
    CHECK(taken.count(name) == 1);
  }
  CHECK(taken.count("segments") == 0);  // it is for GPUs
}

TEST_CASE("the first row that takes a call computes it: added ones come first, in their order") {
  Small small;
  nn::AttentionTable table;
  CHECK(table.row_for(small.call())->name == "SDPA");
  auto refusing = fake("refusing");
  refusing.takes = [](const nn::AttentionCall&) -> nn::Verdict { return nn::WhyNot{"anything"}; };
  table.add(refusing);
  table.add(fake("first"));
  table.add(fake("second"));
  CHECK(table.row_for(small.call())->name == "first");
  CHECK(at::equal(table.attend(small.call()), small.x + 1));
  const auto passed = table.passed_over(small.call());
  REQUIRE(passed.size() == 1);
  CHECK(passed[0].first == "refusing");
  CHECK(passed[0].second.what == "anything");
}

TEST_CASE("a row gets no call that wants what it does not name") {
  Small small;
  nn::AttentionTable table;
  auto capping = fake("capping");
  capping.has = {nn::AttentionFeature::soft_cap};
  table.add(fake("bare"));
  table.add(capping);
  CHECK(table.row_for(small.call())->name == "bare");
  small.spec.soft_cap = 2;
  CHECK(table.row_for(small.call())->name == "capping");
  CHECK(table.passed_over(small.call())[0].second.what == "a soft cap");
  small.spec.window = 1;
  CHECK(table.row_for(small.call())->name == "plain");
}

TEST_CASE("attention with caps and sinks is predicted on the meta device, backward too") {
  (void)predict::door();  // has the meta kernels that ATen has only in Python
  Small small;
  small.spec.soft_cap = 2;
  small.spec.sinks = true;
  for (const auto type : {at::kFloat, at::kBFloat16}) {
    small.x = at::empty({1, 2, 2, 4}, at::TensorOptions(type).device(at::kMeta)).set_requires_grad(true);
    auto call = small.call();
    call.sinks = at::empty({2}, small.x.options()).set_requires_grad(true);
    small.batch.positions = small.batch.positions.to(at::kMeta);
    const auto out = nn::attend(call);
    CHECK(out.sizes() == small.x.sizes());
    CHECK(out.scalar_type() == type);
    out.sum().backward();
    CHECK(small.x.grad().sizes() == small.x.sizes());
    CHECK(call.sinks.grad().sizes() == call.sinks.sizes());
  }
}

TEST_CASE("the plain row with sinks keeps its probabilities for backward, in 16 bits, and no other square") {
  constexpr std::int64_t length = 128, heads = 2, square = length * length;
  Small small;
  small.spec.sinks = true;
  small.x = at::ones({1, heads, length, 4}, at::kBFloat16).set_requires_grad(true);
  auto call = small.call();
  small.batch.positions = at::arange(length, at::kLong).unsqueeze(0);
  call.sinks = at::zeros({heads}, at::kBFloat16);
  at::Tensor out;
  const LiveBytes bytes;
  const auto before = bytes.now();
  out = nn::attend(call);
  // Probabilities of both heads and the mask; beside them only what has as many numbers as q or fewer.
  CHECK(bytes.now() - before < 2 * heads * square + square + 10 * heads * length * 4 * 2);
  out.sum().backward();
  CHECK(small.x.grad().sizes() == small.x.sizes());
}

TEST_CASE("sinks choose only rows that give the softmax's sum with a gradient") {
  Small small;
  small.spec.sinks = true;
  nn::AttentionTable table;
  table.add(fake("none"));
  table.add(fake("without", nn::LogSumExp::without_gradient));
  CHECK(table.row_for(small.call())->name == "plain");
  CHECK(table.passed_over(small.call())[1].second.what == "sinks");
  table.add(fake("with", nn::LogSumExp::with_gradient));
  CHECK(table.row_for(small.call())->name == "with");
}

TEST_CASE("what is put around rows acts in units that run twice, and has one owner") {
  Small small;
  nn::AttentionTable table;
  table.wrap("mine", [](const auto& run, nn::RecomputeContext&) { return run() + 5; });
  const auto plain = table.attend(small.call());
  small.batch.kept = std::make_shared<nn::RecomputeContext>();
  CHECK(at::equal(table.attend(small.call()), plain + 5));
  CHECK_THROWS_WITH(table.wrap("yours", {}), Contains("'mine' and 'yours'"));
}

}  // namespace attention_rows_test
