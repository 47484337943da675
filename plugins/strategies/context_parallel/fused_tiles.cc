#include "fused_tiles.h"

#include <ATen/ATen.h>
#include <capstan/base/error.h>

#include <algorithm>

namespace context_parallel {
namespace {

// Some of [B, key heads, group, places, _] as the kernel has it, [B · places, heads, _].
at::Tensor segments(const at::Tensor& x, std::int64_t place, std::int64_t length) {
  return x.narrow(3, place, length).permute({0, 3, 1, 2, 4}).flatten(2, 3).flatten(0, 1);
}

// And back.
at::Tensor from_segments(const at::Tensor& x, const at::Tensor& like, std::int64_t length) {
  return x.view({like.size(0), length, like.size(1), like.size(2), -1}).permute({0, 2, 3, 1, 4});
}

// What the kernel is told of a tile: each of the B rows is a segment.
struct Call {
  Call(const at::Tensor& queries, const at::Tensor& block, const Tile& tile)
      : q(segments(queries, tile.query, tile.queries.length)),
        k(segments(block.select(0, 0).unsqueeze(2), tile.key, tile.keys.length)),
        v(segments(block.select(0, 1).unsqueeze(2), tile.key, tile.keys.length)),
        query_bounds(bounds(queries.size(0), tile.queries.length)),
        key_bounds(bounds(queries.size(0), tile.keys.length)),
        // With one query it would take another way, that of decoding.
        longest_query(std::max<std::int64_t>(tile.queries.length, 2)),
        longest_key(std::max<std::int64_t>(tile.keys.length, 2)),
        causal(tile.partial) {
    // Without a window a tile that is seen in part is a triangle: a rank's columns with themselves.
    CAPSTAN_ASSERT(!causal || (tile.queries.begin == tile.keys.begin && tile.queries.length == tile.keys.length));
  }
  at::Tensor bounds(std::int64_t rows, std::int64_t length) const {
    return at::arange(rows + 1, q.options().dtype(at::kInt)).mul_(length);
  }
  at::Tensor q, k, v, query_bounds, key_bounds;
  std::int64_t longest_query, longest_key;
  bool causal;
};

}  // namespace

bool has_fused_tiles(const at::Tensor& queries, const ScoreRules& rules) {
  constexpr std::int64_t multiple = 8, most = 256;
  const auto type = queries.scalar_type();
  const bool plain = !rules.window && !rules.slopes.defined() && !rules.sequences.defined();
  const auto dim = queries.size(-1);
  if (!plain || (type != at::kBFloat16 && type != at::kHalf) || dim % multiple != 0 || dim > most) return false;
  if (!queries.is_cuda()) return queries.is_meta();
  constexpr std::int64_t flash = 1, cudnn = 3;  // at::SDPBackend: GPUs that choose cuDNN's have flash attention too
  const auto heads = queries.flatten(1, 2).detach();
  const auto choice = at::_fused_sdp_choice(heads, heads, heads);
  return choice == flash || choice == cudnn;
}

void attend_fused(const Attended& so_far, const at::Tensor& queries, const at::Tensor& block, const Tile& tile,
                  double scale) {
  const Call call(queries, block, tile);
  const auto results = at::_flash_attention_forward(call.q, call.k, call.v, call.query_bounds, call.key_bounds,
                                                    call.longest_query, call.longest_key,
                                                    /*dropout_p=*/0.0, call.causal, /*return_debug_mask=*/false, scale);
  const auto length = tile.queries.length;
  const auto of_tile = from_segments(std::get<0>(results), queries, length);
  const auto sums = from_segments(std::get<1>(results).t().contiguous(), queries, length);
  const auto out = so_far.out.narrow(3, tile.query, length);
  const auto before = so_far.log_of_weights.narrow(3, tile.query, length);
  const auto now = at::logaddexp(before, sums);
  out.mul_((before - now).exp_()).addcmul_(of_tile, (sums - now).exp_());
  before.copy_(now);
}

void add_gradients_fused(const QueryGradients& gradients, const at::Tensor& of_block, const at::Tensor& queries,
                         const at::Tensor& block, const Tile& tile, double scale) {
  const Call call(queries, block, tile);
  const auto length = tile.queries.length;
  const auto sums = segments(gradients.log_of_weights, tile.query, length).squeeze(-1).t().contiguous();
  const auto none = at::zeros({2}, call.query_bounds.options().dtype(at::kLong));  // the state of a dropout
  const auto [of_q, of_k, of_v] = at::_flash_attention_backward(
      segments(gradients.of_out, tile.query, length).contiguous(), call.q, call.k, call.v,
      segments(gradients.out, tile.query, length).contiguous(), sums, call.query_bounds, call.key_bounds,
      call.longest_query, call.longest_key, /*dropout_p=*/0.0, call.causal, none, none, scale);
  gradients.of_queries.narrow(3, tile.query, length).add_(from_segments(of_q, queries, length));
  const auto keys = of_block.narrow(3, tile.key, tile.keys.length);
  const auto like = keys.select(0, 0).unsqueeze(2);
  keys.select(0, 0).add_(from_segments(of_k, like, tile.keys.length).squeeze(2));
  keys.select(0, 1).add_(from_segments(of_v, like, tile.keys.length).squeeze(2));
}

}  // namespace context_parallel
