#include "tiles.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <limits>

#include "fused_tiles.h"

namespace context_parallel {

using namespace capstan;

namespace {

struct Stretch {
  std::int64_t place = 0;  // the first column's, in the list of all
  nn::ColumnRange columns;
};

std::vector<Stretch> stretches(const std::vector<nn::ColumnRange>& ranges, std::int64_t longest) {
  std::vector<Stretch> list;
  std::int64_t place = 0;
  for (const auto& range : ranges) {
    for (std::int64_t done = 0; done < range.length; done += longest) {
      const auto length = std::min(longest, range.length - done);
      list.push_back({place + done, {range.begin + done, length}});
    }
    place += range.length;
  }
  return list;
}

std::int64_t last(const nn::ColumnRange& range) { return range.begin + range.length - 1; }

}  // namespace

std::vector<Tile> visible_tiles(const std::vector<nn::ColumnRange>& queries, const std::vector<nn::ColumnRange>& keys,
                                std::optional<std::int64_t> window, std::int64_t longest) {
  std::vector<Tile> tiles;
  for (const auto& [query, some_queries] : stretches(queries, longest)) {
    for (const auto& [key, some_keys] : stretches(keys, longest)) {
      const bool comes_later = some_keys.begin > last(some_queries);
      if (comes_later || (window && last(some_keys) <= some_queries.begin - *window)) continue;
      const bool partial =
          last(some_keys) > some_queries.begin || (window && some_keys.begin <= last(some_queries) - *window);
      tiles.push_back({query, key, some_queries, some_keys, partial});
    }
  }
  return tiles;
}

at::ScalarType statistics_type(const at::Tensor& x) {
  return x.scalar_type() == at::kDouble ? at::kDouble : at::kFloat;
}

Attended nothing_seen(const at::Tensor& queries) {
  auto shape = queries.sizes().vec();
  const auto options = queries.options().dtype(statistics_type(queries));
  const auto out = at::zeros(shape, options);
  shape.back() = 1;
  return {out, at::full(shape, -std::numeric_limits<double>::infinity(), options)};
}

namespace {

// Some of what is [B, key heads, group, queries, _]: in place.
at::Tensor queries_in(const Tile& tile, const at::Tensor& x) { return x.narrow(3, tile.query, tile.queries.length); }

// The same as [B, key heads, group · queries, dim], for products with what a group shares.
at::Tensor rows_in(const Tile& tile, const at::Tensor& x) { return queries_in(tile, x).flatten(2, 3); }

at::Tensor like_queries(const Tile& tile, const at::Tensor& rows) {
  return rows.unflatten(2, {rows.size(2) / tile.queries.length, tile.queries.length});
}

struct KeysAndValues {
  at::Tensor keys;  // [B, key heads, keys, dim]
  at::Tensor values;
};

KeysAndValues keys_in(const Tile& tile, const at::Tensor& block) {
  const auto some = block.narrow(3, tile.key, tile.keys.length);
  return {some.select(0, 0), some.select(0, 1)};
}

// [B or 1, queries, keys] bool: the pairs that do not see each other. Undefined: all do.
at::Tensor hidden_in(const Tile& tile, const ScoreRules& rules, const at::Tensor& like) {
  at::Tensor hidden;
  if (tile.partial) {
    const auto list = [&](const nn::ColumnRange& range) {
      return at::arange(range.begin, range.begin + range.length, like.options().dtype(at::kLong));
    };
    const auto query = list(tile.queries).unsqueeze(1), key = list(tile.keys).unsqueeze(0);
    hidden = key > query;
    if (rules.window) hidden = hidden.bitwise_or(key <= query - *rules.window);
    hidden = hidden.unsqueeze(0);
  }
  if (!rules.sequences.defined()) return hidden;
  const auto of = [&](const nn::ColumnRange& range) { return rules.sequences.narrow(1, range.begin, range.length); };
  const auto other = of(tile.queries).unsqueeze(2).ne(of(tile.keys).unsqueeze(1));
  return hidden.defined() ? hidden.bitwise_or(other) : other;
}

// The last column's bias is about 0, so that the largest numbers of the softmax are small.
at::Tensor bias_in(const Tile& tile, const ScoreRules& rules, std::int64_t key_heads) {
  const auto& all = rules.positions;
  const auto places = all.narrow(1, tile.keys.begin, tile.keys.length) - (all.size(1) - 1);
  return rules.slopes.view({1, key_heads, -1, 1, 1}) * places.reshape({-1, 1, 1, 1, tile.keys.length});
}

// [B, key heads, group, queries, keys], a new tensor.
at::Tensor scores_in(const Tile& tile, const at::Tensor& rows, const at::Tensor& keys, const ScoreRules& rules) {
  const auto products = at::matmul(rows, keys.transpose(-2, -1)).to(statistics_type(rows));
  auto scores = like_queries(tile, products).mul_(rules.scale);
  if (rules.slopes.defined()) scores.add_(bias_in(tile, rules, keys.size(1)));
  const auto hidden = hidden_in(tile, rules, rows);
  if (hidden.defined()) scores.masked_fill_(hidden.unsqueeze(1).unsqueeze(1), -std::numeric_limits<double>::infinity());
  return scores;
}

}  // namespace

void attend(const Attended& so_far, const at::Tensor& queries, const at::Tensor& block, const std::vector<Tile>& tiles,
            const ScoreRules& rules) {
  constexpr double lowest = std::numeric_limits<float>::lowest();
  const bool fused = has_fused_tiles(queries, rules);
  for (const auto& tile : tiles) {
    if (fused) {
      attend_fused(so_far, queries, block, tile, rules.scale);
      continue;
    }
    const auto [keys, values] = keys_in(tile, block);
    const auto scores = scores_in(tile, rows_in(tile, queries), keys, rules);
    const auto out = queries_in(tile, so_far.out), before = queries_in(tile, so_far.log_of_weights);
    // Where no key was seen yet the logarithm is -inf, and -inf less -inf is no number: a finite one is subtracted.
    const auto most = scores.amax(-1, /*keepdim=*/true).clamp_min(lowest);
    const auto weights = scores.sub_(most).exp_();
    const auto now = at::logaddexp(before, weights.sum(-1, /*keepdim=*/true).log_().add_(most));
    const auto all = now.clamp_min(lowest);
    const auto products = at::matmul(weights.to(queries.scalar_type()).flatten(2, 3), values).to(now.scalar_type());
    out.mul_((before - all).exp_()).addcmul_(like_queries(tile, products), (most - all).exp_());
    before.copy_(now);
  }
}

void add_gradients(const QueryGradients& gradients, const at::Tensor& of_block, const at::Tensor& queries,
                   const at::Tensor& block, const std::vector<Tile>& tiles, const ScoreRules& rules) {
  const bool fused = has_fused_tiles(queries, rules);
  for (const auto& tile : tiles) {
    if (fused) {
      add_gradients_fused(gradients, of_block, queries, block, tile, rules.scale);
      continue;
    }
    const auto [keys, values] = keys_in(tile, block);
    const auto [of_keys, of_values] = keys_in(tile, of_block);
    const auto rows = rows_in(tile, queries), of_out = rows_in(tile, gradients.of_out);
    const auto weights = scores_in(tile, rows, keys, rules).sub_(queries_in(tile, gradients.log_of_weights)).exp_();
    const auto products = weights.to(queries.scalar_type()).flatten(2, 3);
    of_values.add_(at::matmul(products.transpose(-2, -1), of_out));
    const auto of_weights = like_queries(tile, at::matmul(of_out, values.transpose(-2, -1)));
    const auto of_scores = (of_weights - queries_in(tile, gradients.mean)).mul_(weights).mul_(rules.scale);
    const auto of_products = of_scores.to(queries.scalar_type()).flatten(2, 3);
    queries_in(tile, gradients.of_queries).add_(like_queries(tile, at::matmul(of_products, keys)));
    of_keys.add_(at::matmul(of_products.transpose(-2, -1), rows));
  }
}

}  // namespace context_parallel
