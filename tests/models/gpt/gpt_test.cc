// The plugin as the host loads it.
#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>
#include <capstan/nn/model.h>
#include <capstan_catch.h>
#include "nn/model_summary.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <set>

#include <capstan/plugin/host.h>
#include "nn/init_source.h"
#include "support/model.h"

namespace gpt_test {

using namespace capstan;

namespace {

using Options = std::vector<std::pair<std::string, config::Value>>;

std::shared_ptr<nn::Model> make_gpt(const Options& options, Diagnostics& diagnostics) {
  static plugin::Host host;
  config::Section section{"model", {}, {}};
  int line = 10;
  for (const auto& [key, value] : options) {
    section.entries.push_back({key, value, {config::Origin::Layer::file, "a.toml", line++}});
  }
  return std::static_pointer_cast<nn::Model>(host.load("model", "gpt").make(section, diagnostics));
}

std::shared_ptr<nn::Model> make_gpt(const Options& options) {
  Diagnostics diagnostics;
  auto model = make_gpt(options, diagnostics);
  diagnostics.throw_if_any();
  model->check(diagnostics);
  diagnostics.throw_if_any();
  return model;
}

std::int64_t integer(std::int64_t value) { return value; }

const Options small{{"vocab_size", integer(50257)},
                    {"seq_length", integer(1024)},
                    {"num_layers", integer(12)},
                    {"num_heads", integer(12)},
                    {"hidden_size", integer(768)}};
const Options tiny{
    {"vocab_size", integer(31)},  {"seq_length", integer(24)}, {"num_layers", integer(2)}, {"num_heads", integer(3)},
    {"hidden_size", integer(12)}, {"ff_dim", integer(20)},     {"init_std", 0.3}};

using Units = std::vector<std::unique_ptr<nn::Unit>>;

/// Every record once, by name.
std::map<std::string, layout::Param> records_of(const Units& units) {
  std::map<std::string, layout::Param> records;
  std::set<const nn::Weight*> seen;
  for (const auto& unit : units) {
    for (const auto& weight : unit->weights()) {
      if (!seen.insert(weight.get()).second) continue;
      for (const auto& record : weight->records()) {
        CHECK(records.emplace(record.name, record).second);  // a name is used once
      }
    }
  }
  return records;
}

void bind_initial(const Units& units) {
  nn::InitSource source(5);
  for (const auto& unit : units) {
    for (const auto& weight : unit->weights()) {
      std::vector<at::Tensor> parts;
      for (const auto& record : weight->records()) {
        parts.push_back(at::empty(record.shape, at::kDouble));
        source.fill(record, layout::Box::whole(record.shape), parts.back());
      }
      if (!weight->is_bound()) weight->bind(at::cat(parts));
    }
  }
}

at::Tensor run(const Units& units, const nn::Batch& batch, nn::KVCache* cache = nullptr) {
  const at::NoGradGuard no_grad;
  nn::Hidden hidden;
  for (const auto& unit : units) hidden = unit->forward(std::move(hidden), batch, cache);
  return hidden.states;
}

nn::Batch prompt_batch(const at::Tensor& tokens, const std::vector<std::int64_t>& lengths) {
  nn::Batch batch;
  batch.tokens = tokens;
  batch.positions = at::arange(tokens.size(1), at::kLong).expand_as(tokens);
  batch.last = at::tensor(lengths, at::kLong) - 1;
  batch.sample_ids = at::zeros({tokens.size(0)}, at::kLong);
  return batch;
}

}  // namespace

TEST_CASE("gpt: GPT-2 small has GPT-2 small's sizes and 124,439,808 parameters") {
  const auto model = make_gpt(small);
  const auto facts = model->facts();
  CHECK(facts.vocab_size == 50257);
  CHECK(facts.max_positions == 1024);
  CHECK(facts.hidden_size == 768);
  CHECK(facts.num_layers == 12);
  CHECK(facts.num_heads == 12);
  CHECK(facts.attention_dropout);
  const auto units = model->build();
  REQUIRE(units.size() == 14);
  CHECK(units.front()->name() == "embedding");
  CHECK(units[1]->name() == "blocks.0");
  CHECK(units[12]->name() == "blocks.11");
  CHECK(units.back()->name() == "head");
  CHECK(units.front()->weights().front() == units.back()->weights().back());  // tied
  std::int64_t parameters = 0;
  for (const auto& [name, record] : records_of(units)) parameters += record.numel();
  CHECK(parameters == 124439808);
}

TEST_CASE("gpt: attention_dropout in the facts: its own option, or dropout") {
  CHECK(!make_gpt({{"dropout", 0.0}})->facts().attention_dropout);
  CHECK(!make_gpt({{"dropout", 0.1}, {"attention_dropout", 0.0}})->facts().attention_dropout);
  CHECK(make_gpt({{"dropout", 0.0}, {"attention_dropout", 0.1}})->facts().attention_dropout);
}

TEST_CASE("gpt: records are Hugging Face's tensors, q, k and v apart") {
  const auto records = records_of(make_gpt(small)->build());
  std::map<std::string, layout::Shape> expected{
      {"wte.weight", {50257, 768}}, {"wpe.weight", {1024, 768}}, {"ln_f.weight", {768}}, {"ln_f.bias", {768}}};
  for (int i = 0; i < 12; ++i) {
    const auto block = "h." + std::to_string(i) + ".";
    for (const char* norm : {"ln_1", "ln_2"}) {
      expected[block + norm + ".weight"] = {768};
      expected[block + norm + ".bias"] = {768};
    }
    for (const char* matrix : {"attn.q", "attn.k", "attn.v", "attn.c_proj"}) {
      expected[block + matrix + ".weight"] = {768, 768};
      expected[block + matrix + ".bias"] = {768};
    }
    expected[block + "mlp.c_fc.weight"] = {3072, 768};
    expected[block + "mlp.c_fc.bias"] = {3072};
    expected[block + "mlp.c_proj.weight"] = {768, 3072};
    expected[block + "mlp.c_proj.bias"] = {768};
  }
  std::map<std::string, layout::Shape> got;
  for (const auto& [name, record] : records) {
    got[name] = record.shape;
    INFO(name);
    CHECK(record.trainable);
    CHECK(record.decay == (record.shape.size() == 2));  // biases and norms are not decayed
  }
  CHECK(got == expected);
}

TEST_CASE("gpt: the file map covers every record, with the shapes of GPT-2's files") {
  const auto model = make_gpt(small);
  const auto records = records_of(model->build());
  const auto map = model->file_map();
  std::map<std::string, layout::Shape> files;
  std::map<std::string, std::int64_t> elements;
  for (const auto& [name, tensor] : map.tensors) {
    INFO(name);
    REQUIRE(records.count(name) == 1);
    const auto shape = tensor.expected_shape(records.at(name).shape);
    CHECK(files.emplace(tensor.name, shape).first->second == shape);  // all parts of one tensor agree
    elements[tensor.name] += records.at(name).numel();
  }
  CHECK(map.tensors.size() == records.size());
  std::map<std::string, layout::Shape> expected{
      {"wte.weight", {50257, 768}}, {"wpe.weight", {1024, 768}}, {"ln_f.weight", {768}}, {"ln_f.bias", {768}}};
  const std::vector<std::pair<std::string, layout::Shape>> in_block{{"ln_1.weight", {768}},
                                                                    {"ln_1.bias", {768}},
                                                                    {"ln_2.weight", {768}},
                                                                    {"ln_2.bias", {768}},
                                                                    {"attn.c_attn.weight", {768, 2304}},
                                                                    {"attn.c_attn.bias", {2304}},
                                                                    {"attn.c_proj.weight", {768, 768}},
                                                                    {"attn.c_proj.bias", {768}},
                                                                    {"mlp.c_fc.weight", {768, 3072}},
                                                                    {"mlp.c_fc.bias", {3072}},
                                                                    {"mlp.c_proj.weight", {3072, 768}},
                                                                    {"mlp.c_proj.bias", {768}}};
  for (int i = 0; i < 12; ++i) {
    for (const auto& [name, shape] : in_block) expected["h." + std::to_string(i) + "." + name] = shape;
  }
  CHECK(files == expected);
  for (const auto& [name, shape] : expected) {
    INFO(name);
    CHECK(elements[name] == layout::numel(shape));  // the parts fill it
  }
  CHECK(map.prefixes == std::vector<std::string>{"transformer."});
}

TEST_CASE("gpt: a hidden size that the heads don't divide is said with its line and a fix") {
  Diagnostics diagnostics;
  const auto model = make_gpt({{"num_heads", integer(4)}, {"hidden_size", integer(10)}}, diagnostics);
  diagnostics.throw_if_any();
  model->check(diagnostics);
  REQUIRE(diagnostics.size() == 1);
  CHECK(diagnostics.list()[0].text() ==
        "a.toml:11: model.hidden_size 10 is not divisible by model.num_heads 4\n"
        "    fix: use hidden_size 12 or another number of heads");
}

TEST_CASE(
    "gpt: initial values: 0.02, what writes to the residual stream divided by sqrt(2 layers), norms one, biases zero") {
  const auto records = records_of(make_gpt(small)->build());
  for (const auto& [name, record] : records) {
    INFO(name);
    const bool is_norm = name.find("ln_") != std::string::npos;
    if (record.shape.size() == 1) {
      const bool ones = is_norm && name.find(".weight") != std::string::npos;
      CHECK(record.init.kind == (ones ? layout::Init::Kind::ones : layout::Init::Kind::zeros));
      continue;
    }
    CHECK(record.init.kind == layout::Init::Kind::normal);
    CHECK(record.init.mean == 0);
    const bool writes = name.find("c_proj") != std::string::npos;
    CHECK(record.init.std == Approx(writes ? 0.02 / std::sqrt(24.0) : 0.02).epsilon(1e-15));
  }
}

TEST_CASE("gpt: the residual projections' numbers have that deviation") {
  const auto records = records_of(make_gpt({{"hidden_size", integer(64)}, {"num_layers", integer(8)}})->build());
  const auto& record = records.at("h.3.mlp.c_proj.weight");
  auto values = at::empty(record.shape, at::kDouble);
  nn::InitSource(1).fill(record, layout::Box::whole(record.shape), values);
  // 16,384 numbers: the deviation is known to 1 / sqrt(2 * 16,384) = 0.55%; six times that.
  CHECK(values.std().item<double>() == Approx(0.02 / 4).epsilon(0.034));
}

TEST_CASE("gpt: floating-point operations for a token, by hand") {
  const auto model = make_gpt({{"vocab_size", integer(10)},
                               {"hidden_size", integer(4)},
                               {"num_layers", integer(2)},
                               {"num_heads", integer(2)},
                               {"ff_dim", integer(6)}});
  // A layer: q, k, v and projection 4 * 4x4 = 64, feed-forward 2 * 4x6 = 48; two layers 224, head 10x4 = 40.
  // 6 each, since forward multiplies and adds, and backward does so twice.
  // Attention: a token at the end of 3 takes scores and sums of 4 numbers with 3 keys: 2 * 2 * 4 * 3 = 48 forward, 144
  // in all, half of it on average because keys after the query are left out: 72 a layer.
  CHECK(model->flops_per_token(3) == 6 * (224 + 40) + 2 * 72);
  CHECK(model->flops_per_token(0) == 6 * (224 + 40));
}

TEST_CASE("gpt: layers that strategies may look at") {
  const auto units = make_gpt(tiny)->build();
  CHECK(units[0]->all<nn::Embedding>().size() == 2);
  std::vector<std::string> names;
  for (const auto* linear : units[1]->all<nn::Linear>()) names.push_back(linear->name());
  CHECK(names == std::vector<std::string>{"linear_qkv", "linear_proj", "linear_fc1", "linear_fc2"});
  CHECK(units[1]->all<nn::Linear>()[0]->weight()->name() == "h.0.attn.q+k+v.weight");
  std::vector<std::string> regions;
  for (const auto* region : units[1]->all<nn::Region>()) regions.push_back(region->name());
  CHECK(regions == std::vector<std::string>{"attention", "mlp"});
}

TEST_CASE("gpt: the loss sum is minus the log probability of every label that is not -100") {
  const auto units = make_gpt(tiny)->build();
  bind_initial(units);
  const auto tokens = (at::arange(18, at::kLong) * 7).remainder(31).view({2, 9});
  auto labels = (at::arange(18, at::kLong) * 5 + 2).remainder(31).view({2, 9});
  labels[0].slice(0, 0, 4) = -100;
  labels[1].slice(0, 6) = -100;
  double expected = 0;
  for (std::int64_t t = 0; t < 9; ++t) {
    const auto logs = at::log_softmax(run(units, prompt_batch(tokens, {t + 1, t + 1})), -1);
    for (std::int64_t b = 0; b < 2; ++b) {
      const auto label = labels[b][t].item<std::int64_t>();
      if (label >= 0) expected -= logs[b][label].item<double>();
    }
  }
  auto batch = prompt_batch(tokens, {9, 9});
  batch.labels = labels;
  // The same float64 numbers through other kernels: 11 terms of order 1.
  CHECK(run(units, batch).item<double>() == Approx(expected).epsilon(1e-13));
}

TEST_CASE("gpt: generation with the cache says what full forwards say") {
  const auto units = make_gpt(tiny)->build();
  bind_initial(units);
  const std::vector<std::int64_t> lengths{3, 6, 1};
  const std::int64_t longest = 6;
  const std::int64_t wanted = 12;
  auto tokens = (at::arange(18, at::kLong) * 11 + 4).remainder(31).view({3, longest});
  // Without the cache: row by row, everything again for each token.
  std::vector<std::vector<std::int64_t>> expected(3);
  for (std::int64_t b = 0; b < 3; ++b) {
    auto row = tokens[b].narrow(0, 0, lengths[static_cast<std::size_t>(b)]).view({1, -1});
    for (std::int64_t n = 0; n < wanted; ++n) {
      const auto next = run(units, prompt_batch(row, {row.size(1)})).argmax(-1);
      expected[static_cast<std::size_t>(b)].push_back(next.item<std::int64_t>());
      row = at::cat({row, next.view({1, 1})}, 1);
    }
  }
  CHECK(expected[0] != expected[1]);
  nn::KVCache cache(longest + wanted);
  auto batch = prompt_batch(tokens, lengths);
  std::vector<std::vector<std::int64_t>> got(3);
  auto position = at::tensor(lengths, at::kLong);
  for (std::int64_t n = 0; n < wanted; ++n) {
    const auto next = run(units, batch, &cache).argmax(-1);
    cache.set_filled();
    for (std::int64_t b = 0; b < 3; ++b) got[static_cast<std::size_t>(b)].push_back(next[b].item<std::int64_t>());
    batch = prompt_batch(next.view({3, 1}), {1, 1, 1});
    batch.positions = (position + n).view({3, 1});
  }
  CHECK(got == expected);
}

TEST_CASE("gpt: the exact and the approximate GELU differ as they should") {
  const auto hidden = [](const std::string& activation) {
    auto options = tiny;
    options.emplace_back("activation", activation);
    const auto units = make_gpt(options)->build();
    bind_initial(units);
    return run(units, prompt_batch(at::arange(9, at::kLong).view({1, 9}), {9}));
  };
  const auto difference = (hidden("gelu_new") - hidden("gelu")).abs().max().item<double>();
  CHECK(difference > 1e-8);
  CHECK(difference < 1e-1);
}

TEST_CASE("gpt: presets have the published models' parameters") {
  const std::map<std::string, std::int64_t> published{
      {"gpt2", 124439808}, {"gpt2-medium", 354823168}, {"gpt2-large", 774030080}, {"gpt2-xl", 1557611200}};
  CHECK(testing::parameters_of_presets("gpt") == published);
}

TEST_CASE("gpt: an untied head has a matrix of its own") {
  const auto model = make_gpt({{"tie_word_embeddings", false}});
  CHECK(records_of(model->build()).count("lm_head.weight") == 1);
  CHECK(model->file_map().tensors.at("lm_head.weight").name == "lm_head.weight");
  CHECK(model->file_map().ignored == std::vector<std::string>{".attn.bias", ".attn.masked_bias"});
  CHECK(model->file_map().copies.empty());
  const std::map<std::string, std::string> tied{{"lm_head.weight", "wte.weight"}};
  CHECK(make_gpt({{"tie_word_embeddings", true}})->file_map().copies == tied);
}

TEST_CASE("gpt: what the architecture does not cover is refused by name") {
  CHECK(testing::model_faults("gpt", {{"scale_attn_by_inverse_layer_idx", true}}) ==
        std::vector<std::string>{
            "a.toml:10: model.scale_by_layer is not supported\n    fix: set scale_by_layer = false"});
  CHECK(testing::model_faults("gpt", {{"model_type", std::string("gpt_neox")}}) ==
        std::vector<std::string>{"a.toml:10: model.model_type is \"gpt_neox\", but must be one of \"gpt2\""});
}

}  // namespace gpt_test
