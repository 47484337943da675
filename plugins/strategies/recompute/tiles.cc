#include "tiles.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>
#include <capstan/base/error.h>
#include <capstan/strategy_parts/collectives.h>
#include <torch/csrc/autograd/autograd.h>
#include <torch/csrc/autograd/custom_function.h>

#include <algorithm>
#include <memory>
#include <utility>
#include <vector>

namespace recompute {

using namespace capstan;
using nn::ColumnRange;
using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

namespace {

struct Tile {
  ColumnRange own;                 // of this rank's input
  std::vector<ColumnRange> batch;  // of the batch: those of all ranks that share it
};

// All ranks have as many tiles: one whose piece is short has empty ones at the end.
std::vector<Tile> tiles_of(std::int64_t own, std::int64_t all, std::int64_t columns, Sharing sharing) {
  if (own == all) sharing = {};
  const auto longest = ops::piece_of(all, sharing.ranks, 0).length;
  std::vector<Tile> tiles;
  for (std::int64_t begin = 0; begin < longest; begin += columns) {
    const auto within = [&](std::int64_t length) {
      return ColumnRange{std::min(begin, length), std::clamp<std::int64_t>(length - begin, 0, columns)};
    };
    Tile tile{within(own), {}};
    for (int rank = 0; rank < sharing.ranks; ++rank) {
      const auto piece = ops::piece_of(all, sharing.ranks, rank);
      const auto part = within(piece.length);
      if (part.length > 0) tile.batch.push_back({piece.begin + part.begin, part.length});
    }
    tiles.push_back(std::move(tile));
  }
  return tiles;
}

// The same columns among those that a batch's rows have in all.
std::vector<ColumnRange> in_whole_rows(const nn::Batch& batch, const std::vector<ColumnRange>& columns) {
  if (!batch.part) return columns;
  std::vector<ColumnRange> whole;
  for (const auto& range : columns) {
    std::int64_t passed = 0;
    for (const auto& own : batch.part->own) {
      const auto begin = std::max(range.begin, passed), end = std::min(range.begin + range.length, passed + own.length);
      if (begin < end) whole.push_back({own.begin + begin - passed, end - begin});
      passed += own.length;
    }
  }
  return whole;
}

// While it lives, the unit's batch has a tile's columns.
class BatchOfTile {
 public:
  BatchOfTile(nn::Unit& unit, const Tile& tile) : unit_(unit), before_(unit.batch()) {
    auto cut = before_.part ? before_.part->cut : nn::SequenceCut();
    cut.own = [own = in_whole_rows(before_, tile.batch)](std::int64_t) { return own; };
    auto whole = before_.part ? before_.whole() : before_;
    unit_.set_batch(nn::cut_columns(std::make_shared<const nn::Batch>(std::move(whole)), cut));
  }
  ~BatchOfTile() { unit_.set_batch(before_); }
  BatchOfTile(const BatchOfTile&) = delete;
  BatchOfTile& operator=(const BatchOfTile&) = delete;

 private:
  nn::Unit& unit_;
  nn::Batch before_;
};

at::Tensor columns_of(const at::Tensor& x, const ColumnRange& range) {
  return x.narrow(1, range.begin, range.length).contiguous();
}

struct Work : torch::CustomClassHolder {
  nn::Unit* unit = nullptr;
  nn::Region::Body body;
  std::vector<Tile> tiles;

  at::Tensor run(const Tile& tile, const at::Tensor& input) const {
    const BatchOfTile batch(*unit, tile);
    return body(input);
  }
  at::Tensor run(const at::Tensor& input) const {
    auto whole = at::empty(input.sizes(), input.options());
    for (const auto& tile : tiles) {
      const auto part = run(tile, columns_of(input, tile.own));
      CAPSTAN_ASSERT(part.scalar_type() == input.scalar_type());
      whole.narrow(1, tile.own.begin, tile.own.length).copy_(part);
    }
    return whole;
  }
};

// Sums of gradients in 16 bits, which a leaf would round after each tile.
class WideSums {
 public:
  explicit WideSums(const nn::Unit& unit) {
    for (const auto& weight : unit.weights()) {
      if (!weight->is_bound()) continue;
      const auto& leaf = weight->value();
      if (leaf.requires_grad() && leaf.is_leaf() && leaf.element_size() == 2)
        sums_.push_back({leaf, std::exchange(leaf.mutable_grad(), {}), {}});
    }
  }
  void take() {
    for (auto& [leaf, before, sum] : sums_) {
      auto& grad = leaf.mutable_grad();
      if (!grad.defined()) continue;
      sum = sum.defined() ? sum.add_(grad) : grad.to(at::kFloat);
      grad.reset();
    }
  }
  void give_back() {
    for (auto& [leaf, before, sum] : sums_) {
      if (sum.defined() && before.defined()) sum.add_(before);
      leaf.mutable_grad() = sum.defined() ? sum.to(leaf.scalar_type()) : before;
      sum.reset();
    }
  }

 private:
  struct Sum {
    at::Tensor leaf, before, sum;
  };
  std::vector<Sum> sums_;
};

// What a region is in the run in backward: whatever reads its result does so for the gradient only, so nothing is
// computed until that is there, and the result is a tensor without memory.
class TiledBackward : public torch::autograd::Function<TiledBackward> {
 public:
  static at::Tensor forward(AutogradContext* ctx, const at::Tensor& input, const c10::IValue& work) {
    ctx->saved_data["work"] = work;
    ctx->save_for_backward({input});
    return at::empty({1}, input.options()).expand(input.sizes());
  }

  static variable_list backward(AutogradContext* ctx, const variable_list& gradients) {
    const auto work = c10::static_intrusive_pointer_cast<Work>(ctx->saved_data["work"].toCapsule());
    const auto input = ctx->get_saved_variables().front();
    auto result = at::empty_like(input);
    WideSums sums(*work->unit);
    for (const auto& tile : work->tiles) {
      const auto own = columns_of(input, tile.own).detach().requires_grad_(true);
      at::Tensor part;
      {
        const at::AutoGradMode with_grad(true);
        part = work->run(tile, own);
      }
      torch::autograd::backward({part}, {columns_of(gradients.front(), tile.own)});
      if (tile.own.length > 0) result.narrow(1, tile.own.begin, tile.own.length).copy_(own.grad());
      sums.take();
    }
    sums.give_back();
    return {result, at::Tensor()};
  }
};

}  // namespace

Tiles::Tiles(nn::Unit& unit, std::int64_t tokens, Sharing sharing, strategy::KeepInput keep)
    : unit_(&unit), tokens_(tokens), sharing_(sharing), keep_(std::move(keep)) {}

at::Tensor Tiles::operator()(const nn::Region::Body& body, const at::Tensor& input) const {
  const auto columns = std::max<std::int64_t>(1, tokens_ / std::max<std::int64_t>(1, input.size(0)));
  auto tiles = tiles_of(input.size(1), unit_->batch().tokens.size(1), columns, sharing_);
  if (tiles.size() == 1) return strategy::recomputed(body, input, keep_);
  auto work = c10::make_intrusive<Work>();
  work->unit = unit_;
  work->body = body;
  work->tiles = std::move(tiles);
  const auto in_tiles = [work](const at::Tensor& x) {
    return c10::GradMode::is_enabled() ? TiledBackward::apply(x, c10::IValue::make_capsule(work)) : work->run(x);
  };
  return strategy::recomputed(in_tiles, input, keep_);
}

}  // namespace recompute
