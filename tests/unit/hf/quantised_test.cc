// Matrices in codes: FP8 by blocks and whole, as their formula says, and what is said of damaged ones.
#include "hf/quantised.h"

#include <ATen/ATen.h>
#include <capstan/base/files.h>
#include <capstan_catch.h>

#include "checkpoint/faults.h"
#include "checkpoint/scratch.h"
#include "hf/folder_source.h"
#include "support/errors.h"

namespace quantised_test {

using namespace capstan;
using checkpoint::NamedTensor;

namespace {

constexpr auto blocks = R"({"quantization_config": {"quant_method": "fp8", "weight_block_size": [4, 3]}})";

layout::Param record(const std::string& name, const layout::Shape& shape) {
  layout::Param param;
  param.name = name;
  param.shape = shape;
  return param;
}

layout::FileMap map_of(const std::string& name) {
  layout::FileMap map;
  map.prefixes = {"model."};
  map.tensors[name].name = name;
  return map;
}

at::Tensor codes(const layout::Shape& shape) {
  return at::arange(layout::numel(shape), at::kFloat).sub_(20).view(shape).to(at::kFloat8_e4m3fn);
}

}  // namespace

TEST_CASE("FP8 by blocks: an element is its code times the scale of its block, in every box") {
  const Scratch scratch;
  const layout::Shape shape{7, 8};
  const auto scales = at::arange(1, 7, at::kFloat).view({2, 3}).div_(3);
  write_file(scratch / "config.json", blocks);
  checkpoint::write_safetensors(scratch / "model.safetensors", {{"model.w.weight", codes(shape)},
                                                                {"model.w.weight_scale_inv", scales},
                                                                {"model.w.activation_scale", at::ones({})}});
  hf::FolderSource source(scratch.path(), map_of("w.weight"));
  const auto param = record("w.weight", shape);
  Diagnostics faults;
  source.check({&param}, faults);
  CHECK(faults.empty());
  CHECK(source.in_file("w.weight")->coded);
  for (std::int64_t row = 0; row < shape[0]; ++row) {
    for (std::int64_t column = 0; column < shape[1]; ++column) {
      const layout::Box box{{row, column}, {shape[0] - row, shape[1] - column}};
      auto out = at::empty(box.size);
      source.fill(param, box, out);
      const auto expected = codes(shape)[row][column].to(at::kFloat) * scales[row / 4][column / 3];
      REQUIRE(out[0][0].item<float>() == expected.item<float>());
    }
  }
  CHECK_THAT(source.notes({&param}).at(0),
             Contains("has 1 matrix in FP8 with a scale for each block of 4 x 3, which are decoded"));
}

TEST_CASE("FP8 with one scale for the matrix, in bfloat16, and a record that sees it otherwise") {
  const Scratch scratch;
  write_file(scratch / "config.json",
             R"({"text_config": {}, "quantization_config": {"quant_method": "fp8", "weight_block_size": null}})");
  const auto scale = at::scalar_tensor(0.3, at::kBFloat16);
  checkpoint::write_safetensors(scratch / "model.safetensors",
                                {{"w.weight", codes({6, 4})}, {"w.weight_scale_inv", scale}});
  auto map = map_of("w.weight");
  map.tensors["w.weight"].file_shape = {6, 4};
  hf::FolderSource source(scratch.path(), map);
  const auto param = record("w.weight", {2, 3, 4});
  const layout::Box box{{1, 0, 2}, {1, 3, 2}};
  auto out = at::empty(box.size, at::kDouble);
  source.fill(param, box, out);
  const auto whole = codes({6, 4}).to(at::kFloat) * scale.to(at::kFloat);
  CHECK(at::equal(out, whole.view({2, 3, 4}).narrow(0, 1, 1).narrow(2, 2, 2).to(at::kDouble)));
}

TEST_CASE("FP8 by blocks whose scales are powers of two, as F8_E8M0 or as bytes") {
  const Scratch scratch;
  const layout::Shape shape{7, 8};
  const auto exponents = at::arange(124, 130, at::kByte).view({2, 3});
  write_file(scratch / "config.json", blocks);
  checkpoint::write_safetensors(
      scratch / "model.safetensors",
      {{"w.weight", codes(shape)}, {"w.weight_scale_inv", exponents.view(GENERATE(at::kByte, at::kFloat8_e8m0fnu))}});
  hf::FolderSource source(scratch.path(), map_of("w.weight"));
  auto out = at::empty(shape);
  source.fill(record("w.weight", shape), layout::Box::whole(shape), out);
  const auto scales = at::exp2(exponents.to(at::kFloat) - 127);
  const auto of_each = scales.repeat_interleave(4, 0).repeat_interleave(3, 1).narrow(0, 0, 7).narrow(1, 0, 8);
  CHECK(at::equal(out, codes(shape).to(at::kFloat) * of_each));
}

TEST_CASE("what an export keeps beside the model is decoded where it is in codes, and has no scales then") {
  const Scratch scratch;
  const auto scale = at::scalar_tensor(0.3);
  write_file(scratch / "config.json", blocks);
  checkpoint::write_safetensors(scratch / "model.safetensors", {{"mtp.norm.weight", at::ones({2}, at::kHalf)},
                                                                {"mtp.w.weight", codes({7, 8})},
                                                                {"mtp.w.weight_scale_inv", scale},
                                                                {"w.weight", at::ones({2, 2})}});
  auto map = map_of("w.weight");
  map.kept = {"mtp."};
  const hf::FolderSource source(scratch.path(), map);
  REQUIRE(source.kept() == std::vector<std::string>{"mtp.norm.weight", "mtp.w.weight"});
  CHECK(source.kept_head("mtp.norm.weight", at::kBFloat16).dtype == at::kHalf);
  const auto head = source.kept_head("mtp.w.weight", at::kBFloat16);
  CHECK(head.dtype == at::kBFloat16);
  CHECK(head.shape == layout::Shape{7, 8});
  const auto expected = (codes({7, 8}).to(at::kFloat) * scale).to(at::kBFloat16);
  CHECK(at::equal(source.kept_tensor("mtp.w.weight", at::kBFloat16), expected));
}

TEST_CASE("codes without scales, scales of another size and FP8 that config.json does not explain are faults") {
  const Scratch scratch;
  const auto param = record("w.weight", {7, 8});
  const auto fault = [&](const std::string& config, std::vector<NamedTensor> more) {
    write_file(scratch / "config.json", config);
    more.push_back({"w.weight", codes({7, 8})});
    checkpoint::write_safetensors(scratch / "model.safetensors", more);
    const hf::FolderSource source(scratch.path(), map_of("w.weight"));
    Diagnostics faults;
    source.check({&param}, faults);
    return faults.empty() ? std::string() : faults.list().front().text();
  };
  CHECK_THAT(fault(blocks, {}), Contains("w.weight has FP8 codes, and there is no w.weight_scale_inv"));
  CHECK_THAT(fault(blocks, {{"w.weight_scale_inv", at::ones({2, 2})}}),
             Contains("w.weight_scale_inv is [2, 2], and [7, 8] in blocks of 4 x 3 needs [2, 3]"));
  CHECK_THAT(fault(blocks, {{"w.weight_scale", at::ones({})}}),
             Contains("there is no w.weight_scale_inv but a weight_scale, which is another program's form"));
  CHECK_THAT(fault(R"({"quantization_config": {"quant_method": "fp8"}})", {{"w.weight_scale_inv", at::ones({2, 3})}}),
             Contains("w.weight_scale_inv is [2, 3], and [7, 8] in blocks of 128 x 128 needs [1, 1]"));
  CHECK_THAT(fault(R"({"quantization_config": {"quant_method": "fp8", "weight_block_size": null}})",
                   {{"w.weight_scale_inv", at::ones({2, 3})}}),
             Contains("w.weight_scale_inv is [2, 3], and config.json says no weight_block_size"));
  CHECK_THAT(fault("{}", {}), Contains("w.weight holds F8_E4M3, and config.json does not say by which"));
}

}  // namespace quantised_test
