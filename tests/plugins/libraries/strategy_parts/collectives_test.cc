#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>
#include <capstan/comm/communicator.h>
#include <capstan/strategy_parts/collectives.h>
#include <capstan_catch.h>
#include <torch/csrc/autograd/autograd.h>

#include <functional>
#include <mutex>
#include <numeric>

#include "ops/jacobian.h"

namespace collectives_test {

using namespace capstan;
using namespace capstan::ops;
using capstan::testing::numeric_gradients;
using capstan::testing::weighted_sum;

namespace {

using Tensors = std::vector<at::Tensor>;
/// What a rank computes from its input: a tensor, with autograd.
using RankFunction = std::function<at::Tensor(const std::shared_ptr<comm::Group>&, const at::Tensor&)>;

/// body(group) on each of `size` in-process ranks.
void on_ranks(int size, const std::function<void(const std::shared_ptr<comm::Group>&)>& body) {
  comm::run_in_process(size, [&](comm::Communicator& communicator) {
    std::vector<int> ranks(static_cast<std::size_t>(size));
    std::iota(ranks.begin(), ranks.end(), 0);
    body(communicator.group("test", ranks, at::kCPU));
  });
}

Tensors run(const Tensors& inputs, const RankFunction& function) {
  Tensors out(inputs.size());
  on_ranks(static_cast<int>(inputs.size()), [&](const std::shared_ptr<comm::Group>& group) {
    const auto rank = static_cast<std::size_t>(group->rank());
    const at::NoGradGuard no_grad;
    out[rank] = function(group, inputs[rank]);
  });
  return out;
}

/// How the ranks' outputs make the loss.
enum class Loss { parts, same };

/// Rank r's weighting of its own output.
at::Tensor rank_loss(const at::Tensor& out, std::size_t rank, Loss loss) {
  return weighted_sum(loss == Loss::same ? out : out * (1.0 + static_cast<double>(rank)));
}

double total_loss(const Tensors& outputs, Loss loss) {
  double total = 0;
  for (std::size_t rank = 0; rank < outputs.size(); ++rank) {
    total += rank_loss(outputs[rank], rank, loss).item<double>();
  }
  return loss == Loss::same ? total / static_cast<double>(outputs.size()) : total;  // one loss, computed by all
}

/// What autograd says on each rank.
Tensors gradients(const Tensors& inputs, const RankFunction& function, Loss loss) {
  Tensors out(inputs.size());
  on_ranks(static_cast<int>(inputs.size()), [&](const std::shared_ptr<comm::Group>& group) {
    const auto rank = static_cast<std::size_t>(group->rank());
    at::Tensor x = inputs[rank].clone().set_requires_grad(true);
    rank_loss(function(group, x.sin()), rank, loss).backward();
    out[rank] = x.grad();
  });
  return out;
}

double worst(const Tensors& a, const Tensors& b) {
  double worst = 0;
  for (std::size_t i = 0; i < a.size(); ++i) {
    CHECK(a[i].sizes() == b[i].sizes());
    if (a[i].numel() > 0) {
      worst = std::max(worst, (a[i] - b[i]).abs().max().item<double>());
    }
  }
  return worst;
}

Tensors numeric(const Tensors& inputs, const Tensors& varied, const RankFunction& function, Loss loss) {
  const auto value = [&] {
    Tensors x;
    for (const at::Tensor& input : inputs) {
      x.push_back(input.sin());
    }
    return total_loss(run(x, function), loss);
  };
  return numeric_gradients(value, varied);
}

/// Inputs that differ between ranks.
Tensors different(const std::vector<std::vector<std::int64_t>>& shapes) {
  Tensors out;
  for (const auto& shape : shapes) {
    const at::Tensor x = at::empty(shape, at::kDouble);
    out.push_back(
        at::arange(0, x.numel(), at::kDouble).add(3.0 * static_cast<double>(out.size())).mul(0.4).cos().view(shape));
  }
  return out;
}

/// One tensor, seen by all ranks.
Tensors same(int size, const std::vector<std::int64_t>& shape) {
  return Tensors(static_cast<std::size_t>(size), different({shape})[0]);
}

/// The shapes of the ranks' pieces of `dim` of `shape`.
std::vector<std::vector<std::int64_t>> pieces(std::vector<std::int64_t> shape, std::size_t dim, int size) {
  std::vector<std::vector<std::int64_t>> out;
  const std::int64_t full = shape[dim];
  for (int rank = 0; rank < size; ++rank) {
    shape[dim] = piece_of(full, size, rank).length;
    out.push_back(shape);
  }
  return out;
}

const double tolerance = 1e-8;  // for the central differences; see jacobian.h

}  // namespace

TEST_CASE("a dimension is cut into pieces of equal length but the last") {
  const auto lengths = [](std::int64_t full, int size) {
    std::vector<std::int64_t> out;
    std::int64_t next = 0;
    for (int rank = 0; rank < size; ++rank) {
      const ShardRange piece = piece_of(full, size, rank);
      CHECK(piece.begin == next);
      next += piece.length;
      out.push_back(piece.length);
    }
    CHECK(next == full);
    return out;
  };
  using Lengths = std::vector<std::int64_t>;
  CHECK(lengths(6, 3) == Lengths{2, 2, 2});
  CHECK(lengths(7, 3) == Lengths{3, 3, 1});
  CHECK(lengths(4, 3) == Lengths{2, 2, 0});
  CHECK(lengths(1, 3) == Lengths{1, 0, 0});
  CHECK(lengths(0, 2) == Lengths{0, 0});
}

TEST_CASE("copy to group: identity forward, sum backward") {
  for (const int size : {2, 3}) {
    const Tensors x = same(size, {3, 4});
    const RankFunction copy = [](const auto& group, const at::Tensor& in) { return CopyToGroup(group, "copy")(in); };
    CHECK(worst(run(x, copy), x) == 0);
    const Tensors mine = gradients(x, copy, Loss::parts);
    const at::Tensor expected = numeric(x, {x[0]}, copy, Loss::parts)[0];  // x[0] is every rank's
    CHECK(worst(mine, Tensors(x.size(), expected)) < tolerance);
  }
}

TEST_CASE("reduce from group: sum forward, identity backward") {
  for (const int size : {2, 3}) {
    const Tensors x = different(std::vector<std::vector<std::int64_t>>(static_cast<std::size_t>(size), {3, 4}));
    const RankFunction reduce = [](const auto& group, const at::Tensor& in) {
      return ReduceFromGroup(group, "reduce")(in);
    };
    const at::Tensor sum = at::stack(x).sum(0);
    CHECK(worst(run(x, reduce), Tensors(x.size(), sum)) < 1e-15);
    CHECK(worst(gradients(x, reduce, Loss::same), numeric(x, x, reduce, Loss::same)) < tolerance);
  }
}

TEST_CASE("gather from group: any dimension, even and uneven") {
  for (const int size : {2, 3}) {
    for (const std::int64_t full : {6, 5, 4, 1}) {
      for (const std::size_t dim : {0, 1, 2}) {
        std::vector<std::int64_t> shape{2, 3, 2};
        shape[dim] = full;
        const Tensors x = different(pieces(shape, dim, size));
        const auto at_dim = static_cast<std::int64_t>(dim);
        for (const auto& [kind, loss] :
             {std::pair{GatheredGradient::same, Loss::same}, {GatheredGradient::part, Loss::parts}}) {
          const RankFunction gather = [&, what = kind](const auto& group, const at::Tensor& in) {
            return GatherFromGroup(group, at_dim, what, "gather")(in, full);
          };
          CHECK(worst(run(x, gather), Tensors(x.size(), at::cat(x, at_dim))) == 0);
          CHECK(worst(gradients(x, gather, loss), numeric(x, x, gather, loss)) < tolerance);
        }
      }
    }
  }
}

TEST_CASE("scatter to group: any dimension, even and uneven") {
  for (const int size : {2, 3}) {
    for (const std::int64_t full : {6, 5, 4, 1}) {
      for (const std::size_t dim : {0, 1, 2}) {
        std::vector<std::int64_t> shape{2, 3, 2};
        shape[dim] = full;
        const auto at_dim = static_cast<std::int64_t>(dim);
        const auto scatter = [&](ScatteredValue value) {
          return [=](const std::shared_ptr<comm::Group>& group, const at::Tensor& in) {
            return ScatterToGroup(group, at_dim, value, "scatter")(in);
          };
        };
        const auto cut = [&](const at::Tensor& whole, std::size_t rank) {
          const ShardRange piece = piece_of(full, size, static_cast<int>(rank));
          return whole.narrow(at_dim, piece.begin, piece.length);
        };
        const Tensors x = same(size, shape);
        const Tensors parts = different(std::vector<std::vector<std::int64_t>>(static_cast<std::size_t>(size), shape));
        const Tensors from_same = run(x, scatter(ScatteredValue::same));
        const Tensors from_parts = run(parts, scatter(ScatteredValue::part));
        for (std::size_t rank = 0; rank < x.size(); ++rank) {
          CHECK(at::equal(from_same[rank], cut(x[0], rank)));
          CHECK(at::allclose(from_parts[rank], cut(at::stack(parts).sum(0), rank), 0, 1e-15));
        }
        const at::Tensor expected = numeric(x, {x[0]}, scatter(ScatteredValue::same), Loss::parts)[0];
        CHECK(worst(gradients(x, scatter(ScatteredValue::same), Loss::parts), Tensors(x.size(), expected)) < tolerance);
        CHECK(worst(gradients(parts, scatter(ScatteredValue::part), Loss::parts),
                    numeric(parts, parts, scatter(ScatteredValue::part), Loss::parts)) < tolerance);
      }
    }
  }
}

TEST_CASE("a group of one is the identity, without a node") {
  on_ranks(1, [](const std::shared_ptr<comm::Group>& group) {
    const at::Tensor x = at::ones({3, 2}, at::kDouble).set_requires_grad(true);
    CHECK(CopyToGroup(group, "a")(x).is_same(x));
    CHECK(ReduceFromGroup(group, "b")(x).is_same(x));
    CHECK(GatherFromGroup(group, 0, GatheredGradient::part, "c")(x, 3).is_same(x));
    CHECK(ScatterToGroup(group, 0, ScatteredValue::part, "d")(x).is_same(x));
  });
}

TEST_CASE("a gradient that others hold too is not changed by the sum") {
  on_ranks(2, [](const std::shared_ptr<comm::Group>& group) {
    const at::Tensor x = at::ones({4}, at::kDouble).set_requires_grad(true);
    const at::Tensor seed = at::full({4}, 2.0, at::kDouble);
    const at::Tensor y = CopyToGroup(group, "copy")(x);
    const at::Tensor gradient = torch::autograd::grad({y}, {x}, {seed})[0];
    const std::lock_guard lock(*[] {
      static std::mutex mutex;
      return &mutex;
    }());  // Catch2 2's checks are not thread-safe
    CHECK(at::equal(gradient, at::full({4}, 4.0, at::kDouble)));
    CHECK(at::equal(seed, at::full({4}, 2.0, at::kDouble)));
  });
}

TEST_CASE("a piece of the wrong length is a bug") {
  CHECK_THROWS_AS(run(different({{2, 2}, {2, 2}}),
                      [](const auto& group, const at::Tensor& in) {
                        return GatherFromGroup(group, 0, GatheredGradient::same, "gather")(in, 3);
                      }),
                  std::logic_error);
}

}  // namespace collectives_test
