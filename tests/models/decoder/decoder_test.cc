#include <capstan/decoder/decoder.h>

#include <capstan_catch.h>

#include "models/decoder/tiny.h"

namespace decoder_test {

using namespace capstan;
using namespace decoder_test;

namespace {

// GPT-NeoX's names in transformers: a fused q, k and v by heads, and a head that is not called lm_head.
decoder::Spec neox() {
  auto spec = tiny();
  spec.attention.heads = {2, 2, 4};
  spec.qkv_bias = true;
  spec.names.prefix = "gpt_neox.";
  spec.names.tokens = "gpt_neox.embed_in";
  spec.names.block = "gpt_neox.layers.";
  spec.names.qkv = {"attention.query_key_value"};
  spec.names.norm = "gpt_neox.final_layer_norm";
  spec.names.head = "embed_out";
  return spec;
}

std::string published(const layout::FileMap& files, const std::string& record) {
  return files.published(files.tensors.at(record).name);
}

}  // namespace

TEST_CASE("a tied head is the table, and its copy in files is passed over; experts are stacks in files") {
  auto spec = tiny();
  spec.tied_head = true;
  spec.mixture.count = 2;
  const auto units = decoder::units(spec);
  CHECK(units.front()->weights().front() == units.back()->weights().back());
  const auto files = decoder::files(spec);
  CHECK(files.tensors.at("model.layers.0.mlp.experts.down_proj").stack ==
        std::vector<std::string>{"layers.0.mlp.experts.0.down_proj.weight", "layers.0.mlp.experts.1.down_proj.weight"});
  CHECK(files.tensors.at("model.layers.0.mlp.experts.gate_up_proj").stack.size() == 4);
  for (const auto& unit : units) CHECK(unit->undeclared().empty());

  spec.names.experts_together = true;
  const auto together = decoder::files(spec);
  const auto& both = together.tensors.at("model.layers.0.mlp.experts.gate_up_proj");
  CHECK(both.stack.empty());
  CHECK(both.expected_shape({2, 2, 5, width}) == layout::Shape{2, 10, width});
}

TEST_CASE("files have the head under its own name, and a fused q, k and v as one matrix") {
  const auto files = decoder::files(neox());
  CHECK(published(files, "embed_out.weight") == "embed_out.weight");
  CHECK(published(files, "gpt_neox.embed_in.weight") == "gpt_neox.embed_in.weight");
  const std::string qkv = "gpt_neox.layers.0.attention.query_key_value.";
  CHECK(published(files, qkv + "weight") == qkv + "weight");
  CHECK(files.tensors.at(qkv + "weight").expected_shape({2, 3, 4, width}) == layout::Shape{24, width});
  CHECK(files.tensors.at(qkv + "bias").expected_shape({2, 3, 4}) == layout::Shape{24});

  auto inside = neox();
  inside.names.head = "gpt_neox.output_layer";
  const auto within = decoder::files(inside);
  CHECK(within.unprefixed.empty());
  CHECK(published(within, "gpt_neox.output_layer.weight") == "gpt_neox.output_layer.weight");
  CHECK(decoder::files(tiny()).unprefixed == std::vector<std::string>{"lm_head.weight"});
}

TEST_CASE("a head of values takes the place of the head of words, in files too") {
  auto spec = tiny();
  spec.tied_head = true;
  spec.head_values = 3;
  const auto units = decoder::units(spec);
  REQUIRE(units.back()->all<nn::ValueHead>().size() == 1);
  CHECK(units.back()->all<nn::VocabularyHead>().empty());
  const auto& record = units.back()->all<nn::ValueHead>().front()->weight()->records().front();
  CHECK(record.name == "score.weight");
  CHECK(record.shape == layout::Shape{3, width});
  const auto files = decoder::files(spec);
  CHECK(published(files, "score.weight") == "score.weight");
  CHECK(files.may_be_absent == std::vector<std::string>{"score.weight"});
  CHECK(files.ignored == std::vector<std::string>{"lm_head.weight"});
  CHECK(decoder::files(tiny()).may_be_absent.empty());
}

}  // namespace decoder_test
