// A layer that moves data while it multiplies computes what it does one after the other, bit by bit.
#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <capstan/comm/communicator.h>
#include <capstan/ops/collectives.h>
#include <capstan/ops/overlapped_linear.h>
#include <capstan_catch.h>

#include <functional>
#include <numeric>

#include "plugins/strategies/recompute/memory.h"
#include "support/noted_group.h"

using namespace capstan;
using namespace capstan::ops;
using capstan::testing::NotedGroup;
using capstan::testing::NotedProducts;
using capstan::testing::Trace;

namespace {

constexpr std::int64_t rows = 2, in_features = 4, out_features = 6;

/// One layer on some ranks. x is [rows, full, in_features], or this rank's piece of its second dimension.
struct Layer {
  int ranks = 2;
  std::int64_t full = 5;
  bool pieces = false;
  bool overlapped = true;
  bool with_bias = true;
  bool train_input = true;
  bool train_weight = true;
  at::ScalarType type = at::kDouble;
};

/// What one rank gets. Gradients that are not wanted are undefined.
struct Outcome {
  at::Tensor y, x, weight, bias;
  Trace trace;
};

at::Tensor numbers(const std::vector<std::int64_t>& shape, double phase, at::ScalarType type) {
  const auto count = c10::multiply_integers(shape);
  return (at::arange(count, at::kDouble) * 1.7 + phase).sin().view(shape).to(type);
}

at::Tensor call(const Layer& layer, const std::shared_ptr<comm::Group>& group, const at::Tensor& x,
                const at::Tensor& weight, const std::optional<at::Tensor>& bias) {
  if (layer.overlapped) {
    return layer.pieces ? LinearOfPieces(group, 1, "x")(x, layer.full, weight, bias)
                        : LinearOfCopy(group, "x")(x, weight, bias);
  }
  return at::linear(
      layer.pieces ? GatherFromGroup(group, 1, GatheredGradient::part, "x")(x, layer.full) : CopyToGroup(group, "x")(x),
      weight, bias);
}

Outcome run_rank(const Layer& layer, const std::shared_ptr<comm::Group>& group) {
  Outcome out;
  const auto noted = std::make_shared<NotedGroup>(group, out.trace);
  const auto phase = 3.0 * group->rank();
  auto x = numbers({rows, layer.full, in_features}, 0.3, layer.type);
  if (layer.pieces) {
    const auto piece = piece_of(layer.full, group->size(), group->rank());
    x = x.narrow(1, piece.begin, piece.length).clone();
  }
  x.requires_grad_(layer.train_input);
  const auto weight = numbers({out_features, in_features}, phase + 1, layer.type).requires_grad_(layer.train_weight);
  std::optional<at::Tensor> bias;
  if (layer.with_bias) bias = numbers({out_features}, phase + 2, layer.type).requires_grad_(true);
  const auto y = call(layer, noted, x, weight, bias);
  out.trace.emplace_back("backward");
  {
    const NotedProducts products(out.trace);
    y.backward(numbers(y.sizes().vec(), phase + 0.7, layer.type));
  }
  out.y = y.detach();
  out.x = x.grad();
  out.weight = weight.grad();
  if (bias) out.bias = bias->grad();
  return out;
}

std::vector<Outcome> run(const Layer& layer) {
  at::set_num_threads(1);
  std::vector<Outcome> outcomes(static_cast<std::size_t>(layer.ranks));
  comm::run_in_process(layer.ranks, [&](comm::Communicator& communicator) {
    std::vector<int> ranks(static_cast<std::size_t>(layer.ranks));
    std::iota(ranks.begin(), ranks.end(), 0);
    outcomes[static_cast<std::size_t>(communicator.world().rank)] =
        run_rank(layer, communicator.group("tp", ranks, at::kCPU));
  });
  return outcomes;
}

bool same(const at::Tensor& a, const at::Tensor& b) {
  return a.defined() == b.defined() && (!a.defined() || at::equal(a, b));
}

void check_same_bits(Layer layer) {
  layer.overlapped = true;
  const auto overlapped = run(layer);
  layer.overlapped = false;
  const auto apart = run(layer);
  for (std::size_t rank = 0; rank < apart.size(); ++rank) {
    INFO("rank " << rank << " of " << apart.size() << ", length " << layer.full << ", pieces " << layer.pieces
                 << ", bias " << layer.with_bias << ", input " << layer.train_input << ", weight " << layer.train_weight
                 << ", " << layer.type);
    CHECK(same(overlapped[rank].y, apart[rank].y));
    CHECK(same(overlapped[rank].x, apart[rank].x));
    CHECK(same(overlapped[rank].weight, apart[rank].weight));
    CHECK(same(overlapped[rank].bias, apart[rank].bias));
  }
}

/// Bytes that all ranks' forwards leave for their backwards, results included.
std::int64_t kept_by_forward(const Layer& layer) {
  const testing::LiveBytes live;
  std::int64_t kept = 0;
  comm::run_in_process(layer.ranks, [&](comm::Communicator& communicator) {
    std::vector<int> ranks(static_cast<std::size_t>(layer.ranks));
    std::iota(ranks.begin(), ranks.end(), 0);
    const auto group = communicator.group("tp", ranks, at::kCPU);
    const auto piece = piece_of(layer.full, group->size(), group->rank());
    const auto x = at::ones({rows, piece.length, in_features}, at::kDouble).requires_grad_(true);
    const auto weight = at::ones({out_features, in_features}, at::kDouble).requires_grad_(layer.train_weight);
    group->barrier("before");
    const auto before = live.now();
    group->barrier("begin");
    const auto y = call(layer, group, x, weight, {});
    group->barrier("after");
    if (group->rank() == 0) kept = live.now() - before;
    group->barrier("end");
  });
  return kept;
}

}  // namespace

TEST_CASE("overlapped linear: results and gradients are those of a collective and a product, bit by bit") {
  for (const int ranks : {2, 3, 4}) {
    for (const std::int64_t full : {5, 2, 1}) {
      for (const auto type : {at::kDouble, at::kFloat}) {
        for (const bool pieces : {false, true}) {
          Layer layer{.ranks = ranks, .full = full, .pieces = pieces};
          layer.type = type;
          check_same_bits(layer);
        }
      }
    }
  }
}

TEST_CASE("overlapped linear: gradients that nobody wants are not made") {
  for (const bool pieces : {false, true}) {
    check_same_bits({.pieces = pieces, .with_bias = false});
    check_same_bits({.pieces = pieces, .train_input = false});
    check_same_bits({.pieces = pieces, .train_weight = false});
    check_same_bits({.pieces = pieces, .with_bias = false, .train_weight = false});
  }
}

TEST_CASE("overlapped linear: the weight's gradient is made while the input's is summed") {
  const Trace whole{"backward", "mm", "start all-reduce x, backward", "mm", "wait"};
  for (const auto& outcome : run({})) CHECK(outcome.trace == whole);
  const Trace pieces{"all-gather x", "backward", "mm", "start reduce-scatter x, backward", "mm", "wait"};
  for (const auto& outcome : run({.pieces = true})) CHECK(outcome.trace == pieces);
}

TEST_CASE("overlapped linear: nothing is summed for an input without gradient") {
  const Trace frozen{"all-gather x", "backward", "mm", "start reduce-scatter x, backward", "wait"};
  for (const auto& outcome : run({.pieces = true, .train_weight = false})) CHECK(outcome.trace == frozen);
  const Trace first{"all-gather x", "backward", "mm"};
  for (const auto& outcome : run({.pieces = true, .train_input = false})) CHECK(outcome.trace == first);
  const Trace first_whole{"backward", "mm"};
  for (const auto& outcome : run({.train_input = false})) CHECK(outcome.trace == first_whole);
}

TEST_CASE("overlapped linear: what was gathered is kept for the weight's gradient alone") {
  constexpr std::int64_t bytes = 8, full = 6, ranks = 2;
  const auto results = ranks * rows * full * out_features * bytes;
  const auto gathered = ranks * rows * full * in_features * bytes;
  CHECK(kept_by_forward({.ranks = ranks, .full = full, .pieces = true}) == results + gathered);
  CHECK(kept_by_forward({.ranks = ranks, .full = full, .pieces = true, .train_weight = false}) == results);
}

TEST_CASE("overlapped linear: one rank makes no call") {
  for (const bool pieces : {false, true}) {
    check_same_bits({.ranks = 1, .pieces = pieces});
    CHECK(run({.ranks = 1, .pieces = pieces, .train_weight = false}).front().trace == Trace{"backward", "mm"});
  }
}
