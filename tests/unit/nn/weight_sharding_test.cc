// Shards against the layouts that records show to everybody else, element by element.
#include <ATen/ATen.h>
#include <capstan/nn/codec.h>
#include <capstan_catch.h>

#include "nn/weight_sharding.h"

namespace weight_sharding_test {

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

// Element numbers of the weight as the layer uses it on this rank: its records' compute boxes one after the other.
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

void check_sizes(const nn::WeightSharding& sharding, int ranks) {
  CHECK(sharding.ranks == ranks);
  CHECK(sharding.full_elements % 64 == 0);
  CHECK(sharding.full_elements >= sharding.numel);
  // Enough for what every rank's shard of the last record has, so that a collective can write it in place.
  const auto uneven = sharding.in_place && !sharding.even ? sharding.strides.back() * (ranks - 1) : 0;
  CHECK(sharding.full_elements < sharding.numel + uneven + 64);
  CHECK(sharding.shard_elements % 64 == 0);
  std::int64_t largest = 0;
  for (int r = 0; r < ranks; ++r) {
    std::int64_t end = 0;
    for (const auto& shard : sharding.of(r)) {
      CHECK(shard.in_shard >= end);  // in order, without overlap
      end = shard.in_shard + shard.numel;
    }
    largest = std::max(largest, end);
  }
  CHECK(sharding.shard_elements >= largest);
  CHECK(sharding.shard_elements < largest + 64);  // the first rank's shard is full
}

// One record's shard against the box that its layout gives to the rank; through a rank's shard and back, block by block
// too.
void check_shard(const nn::RecordShard& shard, const layout::Param& record, const layout::Box& box,
                 const at::Tensor& full, std::int64_t shard_elements) {
  const auto all =
      at::arange(record.numel(), at::kDouble).add_(static_cast<double>(shard.record) * 1000000).view(record.shape);
  const auto expected = box_of(all, box).reshape({-1});
  CHECK(at::equal(shard.of_full(full).reshape({-1}), expected));
  const auto flat_shard = at::zeros({shard_elements}, at::kDouble);
  shard.of_shard(flat_shard).copy_(shard.of_full(full));
  CHECK(at::equal(flat_shard.narrow(0, shard.in_shard, shard.numel), expected));
  for (std::int64_t b = 0; b < shard.blocks; ++b) {
    const auto block = shard.block(b);
    CHECK(at::equal(block.of_full(full), block.of_shard(flat_shard)));
  }
}

// Every element lies in exactly one rank's shard, and there where the record's layout says.
void check_shards(const std::vector<Shape>& shapes, const layout::Mesh& mesh, const layout::Layout& compute,
                  const std::vector<std::int64_t>& shard_dims = {0}) {
  const auto weight = make_weight(shapes, compute, shard_dims);
  const auto& data_axes = weight.records().front().data_axes;
  for (int rank = 0; rank < mesh.world_size(); ++rank) {
    const auto group = mesh.ranks_along(data_axes, rank);
    const auto ranks = static_cast<int>(group.size());
    const auto sharding = nn::shard_weight(weight, mesh, rank, ranks);
    const auto parts = numbered(weight, mesh, rank);
    std::vector<at::Tensor> flat;
    for (const auto& part : parts) flat.push_back(part.reshape({-1}));
    const auto full = at::cat(flat);
    check_sizes(sharding, ranks);
    CHECK(sharding.numel == full.numel());
    CHECK(layout::numel(sharding.shape) == sharding.numel);
    auto covered = at::zeros({sharding.numel}, at::kLong);
    REQUIRE(sharding.ranks == static_cast<int>(group.size()));
    for (int r = 0; r < ranks; ++r) {
      const auto shards = sharding.of(r);
      REQUIRE(shards.size() == shapes.size());
      for (std::size_t i = 0; i < shards.size(); ++i) {
        const auto& shard = shards[i];
        const auto& record = weight.records()[i];
        CHECK(shard.record == i);
        shard.of_full(covered) += 1;
        const auto box = record.sharded(mesh).box(record.shape, mesh, group[static_cast<std::size_t>(r)]);
        check_shard(shard, record, box, full, sharding.shard_elements);
      }
    }
    CHECK(covered.eq(1).all().item<bool>());
  }
}

}  // namespace

TEST_CASE("padded rounds up to 64") {
  CHECK(nn::padded(0) == 0);
  CHECK(nn::padded(1) == 64);
  CHECK(nn::padded(64) == 64);
  CHECK(nn::padded(65) == 128);
}

TEST_CASE("a sharding covers each element once, where the records' layouts say") {
  const auto shapes =
      GENERATE(std::vector<Shape>{{1}}, std::vector<Shape>{{3}}, std::vector<Shape>{{64}}, std::vector<Shape>{{65, 2}},
               std::vector<Shape>{{7, 3, 2}}, std::vector<Shape>{{8, 16}}, std::vector<Shape>{{5, 4}, {5, 4}, {5, 4}},
               std::vector<Shape>{{6, 3}, {2, 3}, {1, 3}}, std::vector<Shape>{{12}, {4}, {4}});
  const int ranks = GENERATE(1, 2, 3, 4, 5, 8);
  INFO(ranks << " ranks, " << layout::shape_text(shapes.front()));
  check_shards(shapes, layout::Mesh({{layout::Axis::dp, ranks}}), {});
}

TEST_CASE("a sharding divides what other axes leave") {
  const auto shapes = GENERATE(std::vector<Shape>{{8, 6}}, std::vector<Shape>{{10, 6}, {4, 6}});
  const layout::Mesh mesh({{layout::Axis::dp, 2}, {layout::Axis::ep, 2}, {layout::Axis::tp, 2}});
  for (const std::int64_t dim : {0, 1}) check_shards(shapes, mesh, layout::Layout{}.with({dim, {Axis::tp}}));
}

TEST_CASE("experts that ranks cannot share evenly are sharded along another dimension") {
  const std::vector<Shape> gate_up{{4, 2, 6, 3}};
  const std::vector<Shape> down{{4, 5, 6}};
  for (const int ranks : {1, 2, 3, 4, 8}) {
    for (const int split : {1, 2, 4}) {
      const layout::Mesh mesh({{layout::Axis::dp, ranks}, {layout::Axis::tp, split}});
      const auto compute = layout::Layout{}.with({0, {Axis::tp}});
      for (const auto& weights : {gate_up, down}) {
        INFO(ranks << " data ranks, shape " << layout::shape_text(weights.front()));
        check_shards(weights, mesh, compute, {0, weights == gate_up ? 2 : 1});
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
  CHECK(dim(layout::Mesh({{layout::Axis::dp, 4}}), {}) == 0);
  CHECK(dim(layout::Mesh({{layout::Axis::dp, 8}}), {}) == 2);  // 6 rows on 8 ranks: not evenly, but less is left unused
  CHECK(dim(layout::Mesh({{layout::Axis::dp, 2}, {layout::Axis::ep, 2}}), by_ep) == 0);
  CHECK(dim(layout::Mesh({{layout::Axis::dp, 2}, {layout::Axis::ep, 4}}), by_ep) == 2);
  CHECK(dim(layout::Mesh({{layout::Axis::ep, 4}}), by_ep) == 0);
}

TEST_CASE("rows that do not divide: the last ranks hold less, or nothing") {
  const auto weight = make_weight({{5, 3}});
  const auto sharding = nn::shard_weight(weight, layout::Mesh({{layout::Axis::dp, 4}}), 0, 4);
  std::vector<std::int64_t> sizes;
  for (int r = 0; r < 4; ++r) sizes.push_back(sharding.shard(0, r).numel);
  CHECK(sizes == std::vector<std::int64_t>{6, 6, 3, 0});  // ceil(5/4) = 2 rows a rank
  CHECK(sharding.shard_elements == 64);
  CHECK(sharding.shape == std::vector<std::int64_t>{5, 3});
}

TEST_CASE("a fused group is sharded record by record") {
  const auto weight = make_weight({{4, 10}, {2, 10}});
  const auto sharding = nn::shard_weight(weight, layout::Mesh({{layout::Axis::dp, 2}}), 0, 2);
  CHECK(sharding.shape == std::vector<std::int64_t>{6, 10});
  CHECK(sharding.full_elements == 64);
  CHECK(sharding.shard_elements == 64);
  const auto second = sharding.of(1);
  CHECK(second[0].in_shard == 0);
  CHECK(second[0].in_full == 20);
  CHECK(second[0].numel == 20);
  CHECK(second[1].in_shard == 20);
  CHECK(second[1].in_full == 50);
  CHECK(second[1].numel == 10);
}

namespace {

// Keeps 12 neighbouring elements of a matrix together.
class Dozens : public nn::Codec {
 public:
  explicit Dozens(std::size_t stacked) : stacked_(stacked) {}
  Capabilities capabilities() const override { return {.packs = true}; }
  std::string name() const override { return "dozens"; }
  std::string fix() const override { return "leave it out"; }
  std::size_t stacked() const override { return stacked_; }
  std::int64_t grain() const override { return 12; }
  std::int64_t bytes(const Extent& extent) const override { return extent.numel(); }
  void encode(const Extent&, const at::Tensor&, const at::Tensor&, const Sum&) const override {}
  void decode(const Extent&, const at::Tensor&, const at::Tensor&) const override {}

 private:
  std::size_t stacked_;
};

// Rows of a record's sharded dimension by rank.
std::vector<std::int64_t> rows_by_rank(nn::Weight& weight, int ranks, std::size_t stacked) {
  for (auto& record : weight.records()) record.trainable = false;
  weight.set_codec(std::make_shared<Dozens>(stacked));
  const auto sharding = nn::shard_weight(weight, layout::Mesh({{layout::Axis::dp, ranks}}), 0, ranks);
  const auto whole = layout::Box::whole(weight.records().front().shape);
  const auto full = at::arange(sharding.numel, at::kLong);
  std::vector<std::int64_t> rows;
  std::int64_t end = 0;
  for (int r = 0; r < ranks; ++r) {
    const auto shard = sharding.shard(0, r);
    const auto box = sharding.box(0, r, whole);
    CHECK(box.numel() == shard.numel);
    CHECK(box.offset[sharding.dims.front()] == end);
    CHECK(at::equal(shard.of_full(full).reshape({-1}), box_of(full.view(whole.size), box).reshape({-1})));
    CHECK(shard.numel <= sharding.strides.front());
    rows.push_back(box.size[sharding.dims.front()]);
    end += rows.back();
  }
  CHECK(sharding.full_elements == nn::padded(sharding.numel));  // nothing is gathered into the full weight itself
  return rows;
}

}  // namespace

TEST_CASE("what a codec keeps together is one rank's") {
  using Rows = std::vector<std::int64_t>;
  auto nine = make_weight({{20, 9}});  // 12 elements end with a row after four rows
  CHECK(rows_by_rank(nine, 1, 0) == Rows{20});
  CHECK(rows_by_rank(nine, 2, 0) == Rows{12, 8});
  CHECK(rows_by_rank(nine, 3, 0) == Rows{8, 8, 4});
  CHECK(rows_by_rank(nine, 6, 0) == Rows{4, 4, 4, 4, 4, 0});
  auto small = make_weight({{3, 9}});
  CHECK(rows_by_rank(small, 3, 0) == Rows{3, 0, 0});
  auto wide = make_weight({{5, 24}});  // a row is whole dozens
  CHECK(rows_by_rank(wide, 3, 0) == Rows{2, 2, 1});
  auto experts = make_weight({{4, 10, 6}}, {}, {0, 1});  // shared as whole matrices, or by rows of each
  CHECK(rows_by_rank(experts, 2, 1) == Rows{2, 2});
  CHECK(rows_by_rank(experts, 3, 1) == Rows{4, 4, 2});
}

}  // namespace weight_sharding_test
