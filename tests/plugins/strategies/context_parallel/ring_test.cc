// Attention whose keys go around ranks is attention.
#include "plugins/strategies/context_parallel/ring.h"

#include <ATen/ATen.h>
#include <capstan/comm/communicator.h>
#include <capstan_catch.h>
#include <torch/csrc/autograd/autograd.h>

#include <algorithm>
#include <functional>
#include <limits>
#include <numeric>
#include <stdexcept>

#include "plugins/strategies/context_parallel/columns.h"

namespace ring_test {

using namespace capstan;
using namespace context_parallel;

namespace {

constexpr std::int64_t batch = 2, heads = 4, dim = 6;

struct Inputs {
  at::Tensor q;
  at::Tensor k;
  at::Tensor v;
  at::Tensor of_out;  // the gradient that comes back
};

Inputs random_inputs(std::int64_t columns, std::int64_t key_heads, at::ScalarType type = at::kDouble) {
  at::manual_seed(7);
  const auto some = [&](std::int64_t count) {
    return at::randn({batch, count, columns, dim}, at::kDouble).to(type).to(at::kDouble);
  };
  return {some(heads), some(key_heads), some(key_heads), some(heads)};
}

// What comes of them: the result, and the gradients of q, k and v.
using Outcome = std::vector<at::Tensor>;

Outcome outcome_of(const Inputs& in, const std::function<at::Tensor(const Inputs&)>& attention) {
  const auto leaf = [](const at::Tensor& x) { return x.clone().set_requires_grad(true); };
  const Inputs own{leaf(in.q), leaf(in.k), leaf(in.v), in.of_out};
  const auto out = attention(own);
  out.backward(in.of_out);
  return {out.detach(), own.q.grad(), own.k.grad(), own.v.grad()};
}

at::Tensor plain_attention(const Inputs& in, const ScoreRules& rules) {
  const auto columns = in.q.size(2), group = heads / in.k.size(1);
  auto visible = at::ones({columns, columns}, at::kBool).tril();
  if (rules.window) visible = visible.triu(1 - *rules.window);
  visible = visible.unsqueeze(0);
  if (rules.sequences.defined())
    visible = visible.bitwise_and(rules.sequences.unsqueeze(1).eq(rules.sequences.unsqueeze(2)));
  auto scores = at::matmul(in.q, in.k.repeat_interleave(group, 1).transpose(-2, -1)) * rules.scale;
  if (rules.slopes.defined())
    scores = scores + rules.slopes.view({1, -1, 1, 1}) * rules.positions.view({batch, 1, 1, -1});
  scores = scores.masked_fill(visible.logical_not().unsqueeze(1), -std::numeric_limits<double>::infinity());
  return at::matmul(at::softmax(scores, -1), in.v.repeat_interleave(group, 1));
}

struct Layout {
  int ranks;
  std::int64_t tile;
  at::ScalarType type = at::kDouble;
};

// The same on ranks, put together: in float64.
Outcome ring_outcome(const Inputs& in, const ScoreRules& rules, const Layout& layout) {
  Outcome all;
  for (const auto& like : {in.q, in.q, in.k, in.v}) all.push_back(at::full_like(like, 1e9));
  comm::run_in_process(layout.ranks, [&](comm::Communicator& communicator) {
    std::vector<int> members(static_cast<std::size_t>(layout.ranks));
    std::iota(members.begin(), members.end(), 0);
    RingCall call{communicator.group("ring", members, at::kCPU), "test", {}, rules, layout.tile};
    for (const int rank : members) call.columns.push_back(own_columns(in.q.size(2), layout.ranks, rank));
    std::vector<at::Tensor> list{at::empty({0}, at::kLong)};
    for (const auto& [begin, length] : call.columns[static_cast<std::size_t>(call.group->rank())])
      list.push_back(at::arange(begin, begin + length, at::kLong));
    const auto columns = at::cat(list);
    const auto own = [&](const at::Tensor& x) { return x.index_select(2, columns).to(layout.type); };
    const auto mine = outcome_of({own(in.q), own(in.k), own(in.v), own(in.of_out)},
                                 [&](const Inputs& some) { return ring_attention(some.q, some.k, some.v, call); });
    for (std::size_t i = 0; i < all.size(); ++i) {
      if (mine[i].scalar_type() != layout.type) throw std::logic_error("another dtype than the queries'");
      all[i].index_copy_(2, columns, mine[i].to(at::kDouble));
    }
  });
  return all;
}

double worst(const Outcome& a, const Outcome& b) {
  double most = 0;
  for (std::size_t i = 0; i < a.size(); ++i) most = std::max(most, (a[i] - b[i]).abs().max().item<double>());
  return most;
}

double worst(const Inputs& in, const ScoreRules& rules, const Layout& layout) {
  const auto plain = outcome_of(in, [&](const Inputs& some) { return plain_attention(some, rules); });
  return worst(ring_outcome(in, rules, layout), plain);
}

ScoreRules plain_rules() { return {0.3, {}, {}, {}, {}}; }

ScoreRules with_slopes(std::int64_t columns) {
  auto rules = plain_rules();
  rules.slopes = at::tensor({0.5, 0.25, 0.125, 0.0625}, at::kDouble);
  rules.positions = at::arange(columns, at::kLong).repeat({batch, 1});
  return rules;
}

// Packed rows: sequences of 5 and of 3 columns, then what is left.
ScoreRules packed(ScoreRules rules, std::int64_t columns) {
  const auto place = at::arange(columns, at::kLong);
  rules.sequences = at::stack({place.div(5, "floor"), place.div(3, "floor").clamp_max(2) + 10});
  return rules;
}

}  // namespace

TEST_CASE("float64: results and gradients of a ring are those of plain attention") {
  constexpr double tolerance = 1e-12;
  struct Row {
    std::int64_t columns;
    std::int64_t key_heads;
  };
  for (const int ranks : {2, 3, 4}) {
    for (const auto& [columns, key_heads] : {Row{24, 2}, Row{13, 1}, Row{3, 4}, Row{1, 2}}) {  // some ranks have none
      for (const std::int64_t tile : {2, 1024}) {
        INFO(columns << " columns on " << ranks << " ranks, " << key_heads << " key heads, tiles of " << tile);
        const auto in = random_inputs(columns, key_heads);
        auto window = plain_rules();
        window.window = 4;
        CHECK(worst(in, plain_rules(), {ranks, tile}) < tolerance);
        CHECK(worst(in, window, {ranks, tile}) < tolerance);
        CHECK(worst(in, with_slopes(columns), {ranks, tile}) < tolerance);
        CHECK(worst(in, packed(window, columns), {ranks, tile}) < tolerance);
        CHECK(worst(in, packed(with_slopes(columns), columns), {ranks, tile}) < tolerance);
      }
    }
  }
}

TEST_CASE("large scores do not overflow, whichever block has the largest") {
  auto in = random_inputs(24, 2);
  in.q.mul_(60);
  for (const std::int64_t large : {0, 8, 20}) {
    auto one = in;
    one.k = in.k.clone();
    one.k.select(2, large).mul_(40);
    CHECK(worst(one, plain_rules(), {3, 3}) < 1e-8);
  }
}

TEST_CASE("in float32 and bfloat16 statistics and sums over ranks are in float32") {
  const auto single = random_inputs(48, 2, at::kFloat), half = random_inputs(48, 2, at::kBFloat16);
  CHECK(worst(single, plain_rules(), {4, 5, at::kFloat}) < 1e-5);
  // Products are rounded to 8 bits, and nothing else is: sums over as many tiles as columns are no worse than over few.
  for (const auto& layout : {Layout{2, 1024, at::kBFloat16}, Layout{4, 1, at::kBFloat16}}) {
    const auto off = worst(half, plain_rules(), layout);
    INFO("tiles of " << layout.tile << ", off by " << off);
    CHECK(off < 0.03);
    CHECK(off > 1e-4);
  }
}

}  // namespace ring_test
