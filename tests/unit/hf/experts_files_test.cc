// Experts as gpt-oss has them in files: in another order of dimensions, as numbers or in MXFP4.
#include <capstan_catch.h>

#include "checkpoint/scratch.h"
#include "hf/folder_source.h"

namespace experts_files_test {

using namespace capstan;
using namespace capstan::checkpoint;
using hf::FolderSource;
using layout::Box;
using layout::FileMap;
using layout::Param;
using layout::Shape;

namespace {

constexpr std::int64_t hidden = 4;

Param record(const std::string& name, const Shape& shape) {
  Param param;
  param.name = name;
  param.shape = shape;
  return param;
}

at::Tensor numbered(const Shape& shape) { return at::arange(layout::numel(shape), at::kFloat).view(shape); }

std::vector<std::string> faults_of(const FolderSource& source, const Param& param) {
  Diagnostics diagnostics;
  source.check({&param}, diagnostics);
  std::vector<std::string> out;
  for (const auto& diagnostic : diagnostics.list()) out.push_back(diagnostic.text());
  return out;
}

}  // namespace

// gpt-oss' experts: [experts, 2, ff, hidden] is [experts, hidden, 2 ff], each gate beside its up.
TEST_CASE("a record in another order of dimensions takes every box from its tensor") {
  const Shape shape{3, 2, 5, hidden};
  const Scratch scratch;
  FileMap map;
  map.tensors["gate_up"] = {"gate_up", false, {}, {0, 3, 2, 1}, {3, hidden, 10}};
  const auto whole = numbered(shape);
  write_safetensors(scratch / "model.safetensors",
                    {{"gate_up", whole.permute({0, 3, 2, 1}).contiguous().view({3, hidden, 10})}});
  FolderSource source(scratch.path(), map);
  const auto param = record("gate_up", shape);
  CHECK(faults_of(source, param).empty());
  for (std::size_t dim = 0; dim < shape.size(); ++dim) {
    for (std::int64_t begin = 0; begin <= shape[dim]; ++begin) {
      for (std::int64_t end = begin; end <= shape[dim]; ++end) {
        auto box = Box::whole(shape);
        box.offset[dim] = begin;
        box.size[dim] = end - begin;
        auto out = at::empty({box.numel()}, at::kDouble);
        source.fill(param, box, out);
        const auto part = whole.slice(static_cast<std::int64_t>(dim), begin, end);
        REQUIRE(at::equal(out, part.reshape(-1).to(at::kDouble)));
      }
    }
  }
  map.tensors["gate_up"].file_shape = {3, 10, hidden};
  CHECK_THAT(faults_of(FolderSource(scratch.path(), map), param).at(0),
             Contains("gate_up is [3, 4, 10], the model needs [3, 10, 4]"));
}

TEST_CASE("experts in MXFP4 are decoded in every box, and refused where the two tensors do not fit") {
  at::manual_seed(5);
  const Shape shape{2, 2, 3, 64};  // [experts, 2, ff, hidden]
  const auto blocks = at::randint(0, 256, {2, 6, 2, 16}, at::kByte),
             scales = at::randint(100, 140, {2, 6, 2}, at::kByte);
  const auto table = at::tensor({0.0, 0.5, 1.0, 1.5, 2.0, 3.0, 4.0, 6.0});
  const auto codes = at::stack({blocks.bitwise_and(15), blocks.bitwise_right_shift(4)}, -1).to(at::kLong);
  const auto signs = 1 - 2 * codes.floor_divide(8), powers = at::exp2(scales.to(at::kDouble) - 127);
  const auto values = table.index({codes.remainder(8)}).to(at::kDouble) * signs * powers.view({2, 6, 2, 1, 1});
  const auto whole = values.view({2, 3, 2, 64}).transpose(1, 2).to(at::kFloat);
  const Scratch scratch;
  FileMap map;
  map.prefixes = {"model."};
  map.tensors["gate_up"] = {"gate_up", false, {}, {0, 3, 2, 1}, {2, 64, 6}};
  const auto stored = scales.view(GENERATE(at::kByte, at::kFloat8_e8m0fnu));  // the same bytes by either name
  write_safetensors(scratch / "model.safetensors",
                    {{"model.gate_up_blocks", blocks}, {"model.gate_up_scales", stored}});
  FolderSource source(scratch.path(), map);
  const auto param = record("gate_up", shape);
  REQUIRE(source.has(param));
  CHECK(faults_of(source, param).empty());
  CHECK(source.in_file("gate_up")->name == "model.gate_up");
  for (std::size_t dim = 0; dim < shape.size(); ++dim) {
    for (std::int64_t begin = 0; begin <= shape[dim]; begin += 1 + begin / 5) {
      for (std::int64_t end = begin; end <= shape[dim]; ++end) {
        auto box = Box::whole(shape);
        box.offset[dim] = begin;
        box.size[dim] = end - begin;
        auto out = at::empty({box.numel()});
        source.fill(param, box, out);
        REQUIRE(at::equal(out, whole.slice(static_cast<std::int64_t>(dim), begin, end).reshape(-1)));
      }
    }
  }
  write_safetensors(scratch / "model.safetensors",
                    {{"model.gate_up_blocks", blocks}, {"model.gate_up_scales", scales.narrow(1, 0, 5)}});
  CHECK_THAT(faults_of(FolderSource(scratch.path(), map), param).at(0),
             Contains("model.gate_up_scales is [2, 5, 2] of U8, the model needs [2, 6, 2] of U8"));
}

}  // namespace experts_files_test
