// Cuts against the layouts that records show to everybody else, element by element.
#include <ATen/ATen.h>
#include <capstan_catch.h>

#include "shard/cut.h"

using namespace capstan;
using layout::Axis;
using layout::Shape;

namespace {

nn::Weight make_weight(const std::vector<Shape>& shapes, const layout::Layout& compute = {},
                       const std::vector<std::int64_t>& shard_dims = {0}) {
  std::vector<layout::Param> records;
  for (const auto& shape : shapes) {
    records.push_back(nn::record("r" + std::to_string(records.size()), shape, layout::Init::zeros(), true));
    records.back().compute = compute;
    records.back().shard_dims = shard_dims;
  }
  return nn::Weight(std::move(records));
}

at::Tensor box_of(const at::Tensor& whole, const layout::Box& box) {
  auto view = whole;
  for (std::size_t d = 0; d < box.size.size(); ++d)
    view = view.narrow(static_cast<std::int64_t>(d), box.offset[d], box.size[d]);
  return view;
}

// Element numbers of the weight as the layer uses it on this rank: its records' compute boxes one behind the other.
std::vector<at::Tensor> numbered(const nn::Weight& weight, const layout::Mesh& mesh, int rank) {
  std::vector<at::Tensor> parts;
  double first = 0;
  for (const auto& record : weight.records()) {
    const auto whole = at::arange(record.numel(), at::kDouble).add_(first).view(record.shape);
    first += 1000000;
    parts.push_back(box_of(whole, record.compute.box(record.shape, mesh, rank)).contiguous());
  }
  return parts;
}

void check_room(const shard::WeightCut& cut, int ranks) {
  CHECK(cut.ranks == ranks);
  CHECK(cut.whole_room % 64 == 0);
  CHECK(cut.whole_room >= cut.numel);
  // Room for what every rank's piece of the last record has, so that a collective can write it in place.
  const auto uneven = cut.in_place && !cut.even ? cut.strides.back() * (ranks - 1) : 0;
  CHECK(cut.whole_room < cut.numel + uneven + 64);
  CHECK(cut.chunk_room % 64 == 0);
  std::int64_t largest = 0;
  for (const auto& pieces : cut.pieces) {
    std::int64_t end = 0;
    for (const auto& piece : pieces) {
      CHECK(piece.in_chunk >= end);  // in order, without overlap
      end = piece.in_chunk + piece.numel;
    }
    largest = std::max(largest, end);
  }
  CHECK(cut.chunk_room >= largest);
  CHECK(cut.chunk_room < largest + 64);  // the first rank's chunk is full
}

// Every element lies in exactly one rank's chunk, and there where the record's layout says.
void check_cut(const std::vector<Shape>& shapes, const layout::Mesh& mesh, const layout::Layout& compute,
               const std::vector<std::int64_t>& shard_dims = {0}) {
  const auto weight = make_weight(shapes, compute, shard_dims);
  const auto& data_axes = weight.records().front().data_axes;
  for (int rank = 0; rank < mesh.world_size(); ++rank) {
    const auto group = mesh.ranks_along(data_axes, rank);
    const auto ranks = static_cast<int>(group.size());
    const auto cut = shard::cut_weight(weight, mesh, rank, ranks);
    const auto parts = numbered(weight, mesh, rank);
    std::vector<at::Tensor> flat;
    for (const auto& part : parts) flat.push_back(part.reshape({-1}));
    const auto whole = at::cat(flat);
    check_room(cut, ranks);
    CHECK(cut.numel == whole.numel());
    CHECK(layout::numel(cut.shape) == cut.numel);
    auto covered = at::zeros({cut.numel}, at::kLong);
    REQUIRE(cut.pieces.size() == group.size());
    for (int r = 0; r < ranks; ++r) {
      const auto& pieces = cut.pieces[static_cast<std::size_t>(r)];
      REQUIRE(pieces.size() == shapes.size());
      for (std::size_t i = 0; i < pieces.size(); ++i) {
        const auto& piece = pieces[i];
        const auto& record = weight.records()[i];
        CHECK(piece.record == i);
        piece.of_whole(covered) += 1;
        const auto all =
            at::arange(record.numel(), at::kDouble).add_(static_cast<double>(i) * 1000000).view(record.shape);
        const auto box = record.sharded(mesh).box(record.shape, mesh, group[static_cast<std::size_t>(r)]);
        const auto expected = box_of(all, box).reshape({-1});
        CHECK(at::equal(piece.of_whole(whole).reshape({-1}), expected));
        // Through a chunk and back, block by block too.
        const auto chunk = at::zeros({cut.chunk_room}, at::kDouble);
        piece.of_chunk(chunk).copy_(piece.of_whole(whole));
        CHECK(at::equal(chunk.narrow(0, piece.in_chunk, piece.numel), expected));
        for (std::int64_t b = 0; b < piece.blocks; ++b) {
          const auto block = piece.block(b);
          CHECK(at::equal(block.of_whole(whole), block.of_chunk(chunk)));
        }
      }
    }
    CHECK(covered.eq(1).all().item<bool>());
  }
}

}  // namespace

TEST_CASE("padded rounds up to 64") {
  CHECK(shard::padded(0) == 0);
  CHECK(shard::padded(1) == 64);
  CHECK(shard::padded(64) == 64);
  CHECK(shard::padded(65) == 128);
}

TEST_CASE("a cut covers each element once, where the records' layouts say") {
  const auto shapes =
      GENERATE(std::vector<Shape>{{1}}, std::vector<Shape>{{3}}, std::vector<Shape>{{64}}, std::vector<Shape>{{65, 2}},
               std::vector<Shape>{{7, 3, 2}}, std::vector<Shape>{{8, 16}}, std::vector<Shape>{{5, 4}, {5, 4}, {5, 4}},
               std::vector<Shape>{{6, 3}, {2, 3}, {1, 3}}, std::vector<Shape>{{12}, {4}, {4}});
  const int ranks = GENERATE(1, 2, 3, 4, 5, 8);
  INFO(ranks << " ranks, " << layout::shape_text(shapes.front()));
  check_cut(shapes, layout::Mesh({1, ranks, 1, 1}), {});
}

TEST_CASE("a cut cuts what other axes leave") {
  const auto shapes = GENERATE(std::vector<Shape>{{8, 6}}, std::vector<Shape>{{10, 6}, {4, 6}});
  const layout::Mesh mesh({1, 2, 2, 2});
  for (const std::int64_t dim : {0, 1}) check_cut(shapes, mesh, layout::Layout{}.with({dim, {Axis::tp}}));
}

TEST_CASE("experts that ranks cannot share evenly are cut along another dimension") {
  const std::vector<Shape> gate_up{{4, 2, 6, 3}};
  const std::vector<Shape> down{{4, 5, 6}};
  for (const int ranks : {1, 2, 3, 4, 8}) {
    for (const int split : {1, 2, 4}) {
      const layout::Mesh mesh({1, ranks, 1, split});
      const auto compute = layout::Layout{}.with({0, {Axis::tp}});
      for (const auto& weights : {gate_up, down}) {
        INFO(ranks << " data ranks, shape " << layout::shape_text(weights.front()));
        check_cut(weights, mesh, compute, {0, weights == gate_up ? 2 : 1});
      }
    }
  }
  const auto dim = [](const layout::Mesh& mesh, const layout::Layout& compute) {
    auto record = nn::record("experts", {4, 2, 6, 3}, layout::Init::zeros(), true);
    record.data_axes = {Axis::replicate, Axis::dp};
    record.shard_dims = {0, 2};
    record.compute = compute;
    return record.sharded(mesh).cuts.back().dim;
  };
  const auto by_ep = layout::Layout{}.with({0, {Axis::ep}});
  CHECK(dim(layout::Mesh({1, 4, 1, 1}), {}) == 0);
  CHECK(dim(layout::Mesh({1, 8, 1, 1}), {}) == 2);  // 6 rows on 8 ranks: not evenly, but less is left unused
  CHECK(dim(layout::Mesh({1, 2, 2, 1}), by_ep) == 0);
  CHECK(dim(layout::Mesh({1, 2, 4, 1}), by_ep) == 2);
  CHECK(dim(layout::Mesh({1, 1, 4, 1}), by_ep) == 0);
}

TEST_CASE("rows that do not divide: the last ranks hold less, or nothing") {
  const auto weight = make_weight({{5, 3}});
  const auto cut = shard::cut_weight(weight, layout::Mesh({1, 4, 1, 1}), 0, 4);
  std::vector<std::int64_t> sizes;
  for (const auto& pieces : cut.pieces) sizes.push_back(pieces.front().numel);
  CHECK(sizes == std::vector<std::int64_t>{6, 6, 3, 0});  // ceil(5/4) = 2 rows a rank
  CHECK(cut.chunk_room == 64);
  CHECK(cut.shape == std::vector<std::int64_t>{5, 3});
}

TEST_CASE("a fused group is cut record by record") {
  const auto weight = make_weight({{4, 10}, {2, 10}});
  const auto cut = shard::cut_weight(weight, layout::Mesh({1, 2, 1, 1}), 0, 2);
  CHECK(cut.shape == std::vector<std::int64_t>{6, 10});
  CHECK(cut.whole_room == 64);
  CHECK(cut.chunk_room == 64);
  const auto& second = cut.pieces[1];
  CHECK(second[0].in_chunk == 0);
  CHECK(second[0].in_whole == 20);
  CHECK(second[0].numel == 20);
  CHECK(second[1].in_chunk == 20);
  CHECK(second[1].in_whole == 50);
  CHECK(second[1].numel == 10);
}
