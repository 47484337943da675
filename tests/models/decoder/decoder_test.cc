#include <capstan/base/error.h>
#include <capstan/decoder/decoder.h>

#include <capstan_catch.h>

#include <functional>

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

nn::WeightPtr square(const std::string& name) {
  return std::make_shared<nn::Weight>(
      std::vector<layout::Param>{nn::record(name, {width, width}, layout::Init::normal(0.1), true)});
}

/// One product, in attention's or in the feed-forward layer's place.
template <class Place>
class Own : public Place {
 public:
  Own(nn::Layer& parent, const std::string& record)
      : Place(parent, "own"), product_(*this, "linear_own", nn::WeightSplit::none, square(record), nullptr) {}

 protected:
  nn::Linear product_;
};

struct OwnFeed : Own<decoder::FeedForward> {
  using Own::Own;
  at::Tensor forward(const at::Tensor& x) const override { return product_.forward(x); }
};

struct OwnMixer : Own<decoder::TokenMixer> {
  using Own::Own;
  at::Tensor forward(const at::Tensor& x, const nn::Batch&, nn::KVCache*) const override { return product_.forward(x); }
};

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

TEST_CASE("layers of the model's own stand beside mixtures and fused modules, in files too") {
  auto spec = neox();
  spec.num_layers = 2;
  spec.mixture.count = 2;
  if (GENERATE(false, true)) spec.names.expert_parts.clear();
  spec.names.fused = {{"mlp.both", {"mlp.own", "mlp.other"}}};
  spec.feed_forward = [](nn::Layer& parent, std::int64_t block, const std::string& records) {
    return block == 1 ? std::make_unique<OwnFeed>(parent, records + "mlp.own.weight") : nullptr;
  };
  spec.token_mixer = [](nn::Layer& parent, std::int64_t block, const std::string& records) {
    return block == 0 ? std::make_unique<OwnMixer>(parent, records + "mixer.weight") : nullptr;
  };
  const auto files = decoder::files(spec);
  const std::string first = "gpt_neox.layers.0.", second = "gpt_neox.layers.1.";
  CHECK(files.tensors.at(first + "mlp.experts.down_proj").stack.empty() == spec.names.expert_parts.empty());
  CHECK_FALSE(files.tensors.contains(second + "mlp.experts.down_proj"));
  CHECK(published(files, first + "mixer.weight") == first + "mixer.weight");
  CHECK(files.tensors.at(second + "attention.query_key_value.weight").file_shape == layout::Shape{24, width});
  CHECK(published(files, second + "mlp.own.weight") == second + "mlp.both.weight");
}

TEST_CASE("files are those of blocks that are not alike") {
  auto spec = tiny();
  spec.num_layers = 2;
  spec.vary = [](decoder::Spec& block, std::int64_t index) {
    if (index == 0) return;
    block.attention.heads = {3, 3, 4};
    block.names.qkv = {"attention.query_key_value"};
    block.mixture.count = 2;
  };
  const auto files = decoder::files(spec);
  const std::string second = "model.layers.1.";
  CHECK_FALSE(files.tensors.contains("model.layers.0.mlp.experts.down_proj"));
  CHECK(files.tensors.at(second + "mlp.experts.down_proj").stack.size() == 2);
  CHECK(files.tensors.at(second + "attention.query_key_value.weight").file_shape == layout::Shape{36, width});
}

TEST_CASE("what a block's kind of attention does not compute is refused") {
  const auto refusal = [](decoder::Spec spec, const std::function<void(decoder::Spec&)>& change) {
    change(spec);
    try {
      (void)decoder::units(spec);
    } catch (const Error& error) {
      return error.diagnostics().front().text();
    }
    return std::string("nothing");
  };
  auto latent = tiny();
  latent.attention.heads = {2, 2, 4};
  latent.rotary.emplace(2, 1e4, nn::RotaryScaling{});
  latent.latent = decoder::LatentSpec{.query_rank = 3, .key_rank = 3, .turned = 2};
  auto turned = tiny();
  turned.norms_after_rotary = true;
  auto sharing = tiny();
  sharing.sharing.gives = true;
  CHECK(refusal(latent, [](auto&) {}) == "nothing");
  CHECK(refusal(sharing, [](auto& s) { s.attention.sinks = true; }) == "nothing");
  CHECK(refusal(neox(), [](auto& s) { s.query_scaling = nn::QueryScaling{0.1, 4}; }) == "nothing");
  CHECK_THAT(
      refusal(latent,
              [](auto& s) {
                s.query_scaling = nn::QueryScaling{0.1, 4};
                s.value_norm = true;
              }),
      Contains("decoder::Spec of block 0 has query_scaling, value_norm, which attention through latents does not "
               "compute"));
  CHECK_THAT(refusal(latent, [](auto& s) { s.sharing.gives = true; }),
             Contains("has latent, which attention that shares"));
  CHECK_THAT(refusal(turned,
                     [](auto& s) {
                       s.query_scaling = nn::QueryScaling{0.1, 4};
                     }),
             Contains("has query_scaling, which attention with norms after rotation"));
  CHECK_THAT(refusal(turned, [](auto& s) { s.sharing.gives = true; }), Contains("has norms_after_rotary, which"));
  CHECK_THAT(refusal(sharing, [](auto& s) { s.output_gate = true; }),
             Contains("has output_gate, which attention that"));
  CHECK_THAT(refusal(sharing, [](auto& s) { s.query_scaling = nn::QueryScaling{0.1, 4}; }), Contains("query_scaling"));
  CHECK_THAT(refusal(sharing, [](auto& s) { s.head_norms = decoder::Spec::HeadNorms::all; }), Contains("head_norms"));
  CHECK_THAT(refusal(neox(), [](auto& s) { s.output_gate = true; }),
             Contains("has output_gate, which attention with one module of q, k and v does not compute"));
  CHECK_THAT(refusal(neox(), [](auto& s) { s.keys_are_values = true; }), Contains("has keys_are_values"));
  CHECK_THAT(refusal(neox(), [](auto& s) { s.attention.heads.keys = 1; }), Contains("has fewer key heads than query"));
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
