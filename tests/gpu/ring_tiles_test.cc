// A ring's tiles through flash attention, against products on the CPU in float64, from the same rounded numbers.
#include "plugins/strategies/context_parallel/fused_tiles.h"

#include <ATen/ATen.h>
#include <capstan_catch.h>

#include "gpu/compare.h"

using namespace context_parallel;

namespace {

// Drawn, so that weights' gradients do not cancel: what is left of sums that do is mostly rounding.
at::Tensor drawn(const std::vector<std::int64_t>& shape) { return at::randn(shape, at::kDouble); }

// Two of the rank's chunks, one that rows begin with and one that they end with.
std::vector<capstan::nn::ColumnRange> zigzag(std::int64_t all, int ranks, int rank) {
  std::vector<capstan::nn::ColumnRange> own;
  for (const int chunk : {rank, 2 * ranks - 1 - rank}) {
    const auto begin = all * chunk / (2 * ranks), end = all * (chunk + 1) / (2 * ranks);
    own.push_back({begin, end - begin});
  }
  return own;
}

struct Result {
  at::Tensor out, of_queries, of_blocks;
};

// What `rank`'s queries get from all ranks' keys, and give to them; blocks follow each other along the columns.
Result attend_all(int rank, const std::vector<std::vector<capstan::nn::ColumnRange>>& columns,
                  const at::Tensor& queries, const std::vector<at::Tensor>& blocks, const at::Tensor& of_out,
                  std::int64_t longest) {
  ScoreRules rules;
  rules.scale = 0.2;
  const auto tiles = [&](std::size_t owner) {
    return visible_tiles(columns[static_cast<std::size_t>(rank)], columns[owner], {}, longest);
  };
  const auto seen = nothing_seen(queries);
  for (std::size_t owner = 0; owner < blocks.size(); ++owner) attend(seen, queries, blocks[owner], tiles(owner), rules);
  const auto type = statistics_type(queries);
  const auto out = seen.out.to(queries.scalar_type());
  const QueryGradients of{of_out, out, seen.log_of_weights, (of_out.to(type) * out).sum(-1, true),
                          at::zeros(queries.sizes(), queries.options().dtype(type))};
  std::vector<at::Tensor> of_blocks;
  for (std::size_t owner = 0; owner < blocks.size(); ++owner) {
    of_blocks.push_back(at::zeros(blocks[owner].sizes(), blocks[owner].options().dtype(type)));
    add_gradients(of, of_blocks.back(), queries, blocks[owner], tiles(owner), rules);
  }
  return {seen.out, of.of_queries, at::cat(of_blocks, 3)};
}

void check(std::int64_t group, std::int64_t dim, std::int64_t all, at::ScalarType type, double rounding) {
  constexpr int ranks = 2;
  constexpr std::int64_t rows = 2, heads = 2;
  std::vector<std::vector<capstan::nn::ColumnRange>> columns;
  std::vector<at::Tensor> blocks, wide_blocks;
  const auto length = [](const auto& ranges) {
    std::int64_t sum = 0;
    for (const auto& range : ranges) sum += range.length;
    return sum;
  };
  for (int rank = 0; rank < ranks; ++rank) {
    columns.push_back(zigzag(all, ranks, rank));
    blocks.push_back(drawn({2, rows, heads, length(columns.back()), dim}).to(type));
    wide_blocks.push_back(blocks.back().to(at::kDouble));
    blocks.back() = blocks.back().cuda();
  }
  for (int rank = 0; rank < ranks; ++rank) {
    INFO("rank " << rank << ", group " << group << ", dim " << dim << ", " << all << " columns, " << type);
    const auto own = length(columns[static_cast<std::size_t>(rank)]);
    const auto queries = drawn({rows, heads, group, own, dim}).to(type);
    const auto of_out = drawn({rows, heads, group, own, dim}).to(type);
    REQUIRE(has_fused_tiles(queries.cuda(), {}));
    const auto got = attend_all(rank, columns, queries.cuda(), blocks, of_out.cuda(), all);
    const auto expected = attend_all(rank, columns, queries.to(at::kDouble), wide_blocks, of_out.to(at::kDouble), 64);
    CHECK(distance(got.out, expected.out) < rounding);
    CHECK(distance(got.of_queries, expected.of_queries) < 4 * rounding);  // of products of rounded weights
    CHECK(distance(got.of_blocks, expected.of_blocks) < 4 * rounding);
  }
}

}  // namespace

TEST_CASE("GPU: a ring's tiles through flash attention equal float64 products up to rounding", "[ring]") {
  at::manual_seed(1);
  for (const auto& [type, rounding] : {std::pair(at::kBFloat16, 1.0 / 128), std::pair(at::kHalf, 1.0 / 1024)}) {
    check(1, 64, 512, type, rounding);
    check(4, 128, 301, type, rounding);  // pieces of several lengths
    check(2, 80, 128, type, rounding);
    check(3, 64, 7, type, rounding);  // pieces of one and two columns
  }
}
