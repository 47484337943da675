// Tensors that a folder has beside the trained model's: kept, said, and written again byte for byte.
#include <ATen/ATen.h>
#include <capstan_catch.h>

#include "checkpoint/faults.h"
#include "checkpoint/scratch.h"
#include "hf/hf_export.h"
#include "hf/wrapper.h"

namespace kept_tensors_test {

using namespace capstan;
using checkpoint::NamedTensor;

namespace {

layout::FileMap text_map() {
  layout::FileMap map;
  map.prefixes = {"model."};
  map.tensors["model.layers.0.w"].name = "layers.0.w";
  map.tensors["lm_head"].name = "lm_head.weight";
  return map;
}

std::vector<layout::Param> records() {
  std::vector<layout::Param> out(2);
  out[0].name = "model.layers.0.w";
  out[0].shape = {3, 4};
  out[1].name = "lm_head";
  out[1].shape = {5, 4};
  return out;
}

std::vector<const layout::Param*> pointers(const std::vector<layout::Param>& params) {
  std::vector<const layout::Param*> out;
  for (const auto& param : params) out.push_back(&param);
  return out;
}

std::vector<std::string> faults_of(const hf::FolderSource& source, const std::vector<layout::Param>& params) {
  Diagnostics faults;
  source.check(pointers(params), faults);
  std::vector<std::string> out;
  for (const auto& fault : faults.list()) out.push_back(fault.text());
  return out;
}

// All that the folder has, written again with the text model's values from elsewhere.
std::map<std::string, at::Tensor> written_again(hf::FolderSource& source, const layout::FileMap& map,
                                                const std::vector<layout::Param>& params) {
  hf::HfWeights weights;
  weights.records = pointers(params);
  weights.map = map;
  weights.values = &source;
  weights.original = &source;
  std::map<std::string, at::Tensor> out;
  for (auto& [name, tensor] : hf::HfWriter(weights).values()) out[name] = tensor.clone();
  return out;
}

}  // namespace

TEST_CASE("beside a text model all other tensors are kept, whichever names the files have, and written as they are") {
  const auto params = records();
  const auto map = hf::in_wrapper(text_map());
  for (const bool is_new : {false, true}) {
    const std::string text = is_new ? "model.language_model." : "language_model.model.";
    const std::vector<NamedTensor> tensors{
        {text + "layers.0.w", at::randn({3, 4})},
        {is_new ? "lm_head.weight" : "language_model.lm_head.weight", at::randn({5, 4}).to(at::kBFloat16)},
        {is_new ? "model.vision_tower.a" : "vision_tower.a", at::randint(0, 256, {7}, at::kByte)},
        {"mtp.norm.weight", at::randn({2}).to(at::kHalf)}};
    const Scratch scratch;
    checkpoint::write_safetensors(scratch / "model.safetensors", tensors);
    hf::FolderSource source(scratch.path(), map);
    CHECK(faults_of(source, params).empty());
    CHECK(source.kept() == std::vector<std::string>{tensors[is_new ? 2 : 3].name, tensors[is_new ? 3 : 2].name});
    const auto again = written_again(source, map, params);
    CHECK(again.size() == tensors.size());
    for (const auto& [name, tensor] : tensors) {
      INFO(name);
      REQUIRE(again.contains(name));
      CHECK(again.at(name).scalar_type() == tensor.scalar_type());
      CHECK(at::equal(again.at(name), tensor));
    }
    CHECK_THAT(source.notes(pointers(params)).at(0),
               Contains("has 2 tensors besides the text model's (") && Contains("which are not trained and kept"));
  }
}

TEST_CASE("a text model's modules are transformers 5's, whatever the files call them") {
  const auto map = hf::in_wrapper(text_map());
  CHECK(map.published("layers.0.mlp.up_proj.weight") == "model.language_model.layers.0.mlp.up_proj.weight");
  CHECK(map.published("lm_head.weight") == "lm_head.weight");
  CHECK(map.prefixes == std::vector<std::string>{"model.language_model.", "language_model.model.", "language_model."});
}

TEST_CASE("what is inside of the text model and not one of its tensors is no tensor to keep") {
  const Scratch scratch;
  checkpoint::write_safetensors(scratch / "model.safetensors", {{"language_model.model.layers.0.w", at::ones({3, 4})},
                                                                {"language_model.model.layers.1.w", at::ones({3, 4})},
                                                                {"language_model.lm_head.weight", at::ones({5, 4})}});
  const hf::FolderSource source(scratch.path(), hf::in_wrapper(text_map()));
  const auto faults = faults_of(source, records());
  REQUIRE(faults.size() == 1);
  CHECK_THAT(faults[0], Contains("1 tensor that the model does not have: language_model.model.layers.1.w"));
}

TEST_CASE("layers that predict further tokens are kept byte for byte, and said to be stale") {
  auto map = text_map();
  map.kept = {"layers.1.", "mtp."};
  const Scratch scratch;
  checkpoint::write_safetensors(scratch / "model.safetensors", {{"model.layers.0.w", at::ones({3, 4})},
                                                                {"model.layers.1.w", at::ones({3, 4})},
                                                                {"model.layers.10.w", at::ones({3, 4})},
                                                                {"mtp.w", at::ones({1})},
                                                                {"lm_head.weight", at::ones({5, 4})}});
  hf::FolderSource source(scratch.path(), map);
  CHECK(source.kept() == std::vector<std::string>{"model.layers.1.w", "mtp.w"});
  const auto faults = faults_of(source, records());
  REQUIRE(faults.size() == 1);
  CHECK_THAT(faults[0], Contains("1 tensor that the model does not have: model.layers.10.w"));
  CHECK_THAT(source.notes({}).at(0),
             Contains("has 2 tensors that are not trained (model.layers.1.*, mtp.*): they are kept byte for byte, and "
                      "stale once the model is trained"));
}

}  // namespace kept_tensors_test
