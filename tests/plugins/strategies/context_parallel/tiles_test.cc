// Which scores a ring computes.
#include "plugins/strategies/context_parallel/tiles.h"

#include <ATen/ATen.h>
#include <capstan_catch.h>

#include "plugins/strategies/context_parallel/columns.h"

namespace tiles_test {

using namespace context_parallel;
using Window = std::optional<std::int64_t>;

namespace {

// All ranks' tiles, those with `rank`'s queries and `owner`'s keys together.
std::vector<std::vector<Tile>> tiles_of_all(std::int64_t columns, int ranks, const Window& window,
                                            std::int64_t longest) {
  std::vector<std::vector<Tile>> all;
  for (int rank = 0; rank < ranks; ++rank) {
    for (int owner = 0; owner < ranks; ++owner) {
      all.push_back(
          visible_tiles(own_columns(columns, ranks, rank), own_columns(columns, ranks, owner), window, longest));
    }
  }
  return all;
}

// [columns, columns]: how often each pair is in a tile that is not, and in one that is partial.
struct Counted {
  at::Tensor full;
  at::Tensor partial;
};
Counted counted(std::int64_t columns, const std::vector<std::vector<Tile>>& all) {
  Counted pairs{at::zeros({columns, columns}, at::kLong), at::zeros({columns, columns}, at::kLong)};
  for (const auto& tiles : all) {
    for (const auto& tile : tiles) {
      const auto& to = tile.partial ? pairs.partial : pairs.full;
      to.narrow(0, tile.queries.begin, tile.queries.length).narrow(1, tile.keys.begin, tile.keys.length).add_(1);
    }
  }
  return pairs;
}

at::Tensor visible_pairs(std::int64_t columns, const Window& window) {
  const auto all = at::ones({columns, columns}, at::kLong).tril();
  return window ? all.triu(1 - *window) : all;
}

}  // namespace

TEST_CASE("each pair that sees each other is in one tile, and the others only in partial ones") {
  for (const int ranks : {2, 3, 4}) {
    for (const std::int64_t columns : {1, 3, 13, 24}) {
      for (const auto& window : {Window(), Window(1), Window(3), Window(10)}) {
        for (const std::int64_t longest : {2, 3, 1024}) {
          INFO(columns << " columns on " << ranks << ", window " << window.value_or(0) << ", tiles of " << longest);
          const auto pairs = counted(columns, tiles_of_all(columns, ranks, window, longest));
          const auto visible = visible_pairs(columns, window);
          CHECK((pairs.full * (1 - visible)).sum().item<std::int64_t>() == 0);
          CHECK(at::equal((pairs.full + pairs.partial) * visible, visible));
          CHECK((pairs.full + pairs.partial).max().item<std::int64_t>() == 1);
        }
      }
    }
  }
}

TEST_CASE("a causal ring computes about half of the tiles, each rank as many, and a window's ring a few") {
  constexpr std::int64_t columns = 64;
  for (const int ranks : {2, 4, 8}) {
    const std::int64_t chunks = std::int64_t{2} * ranks;
    for (const std::int64_t pieces : {1, 2}) {  // of each chunk
      const auto all = tiles_of_all(columns, ranks, {}, columns / (chunks * pieces));
      auto some = all.begin();
      for (int rank = 0; rank < ranks; ++rank) {
        std::int64_t computed = 0;
        for (int owner = 0; owner < ranks; ++owner) computed += static_cast<std::int64_t>((some++)->size());
        // Its 2 · pieces rows have chunks · pieces tiles each: half of all these, and half of the diagonal's.
        CHECK(computed == pieces * (chunks * pieces + 1));
      }
    }
  }
  std::size_t near = 0;
  for (const auto& tiles : tiles_of_all(columns, 4, 5, 8)) near += tiles.size();
  CHECK(near == 15);  // the diagonal's 8, and those before them
}

TEST_CASE("a tile's places are those of its columns among a rank's") {
  const auto columns = own_columns(13, 2, 1);  // 4–7, 8–11
  const auto tiles = visible_tiles(columns, own_columns(13, 2, 0), {}, 3);
  REQUIRE(!tiles.empty());
  const auto place_of = [](std::int64_t column, const std::vector<capstan::nn::ColumnRange>& ranges) {
    std::int64_t before = 0;
    for (const auto& [begin, length] : ranges) {
      if (column >= begin && column < begin + length) return before + column - begin;
      before += length;
    }
    return std::int64_t{-1};
  };
  for (const auto& tile : tiles) {
    CHECK(tile.query == place_of(tile.queries.begin, columns));
    CHECK(tile.key == place_of(tile.keys.begin, own_columns(13, 2, 0)));
  }
}

}  // namespace tiles_test
