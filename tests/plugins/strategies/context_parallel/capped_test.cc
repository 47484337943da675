// A model whose attention has a soft cap, sinks, windows and values of another width than keys: what ranks learn that
// share its heads or its tokens is what one rank learns, and what a ring cannot compute is refused before any step.
#include <capstan/decoder/rotary_options.h>
#include <capstan/testing.h>
#include <capstan_catch.h>

#include "plugins/strategies/context_parallel/cases.h"

namespace capped_test {

using namespace capstan;
using namespace capstan::testing;

namespace {

struct CappedOptions : decoder::RotaryOptions {
  double cap = 0.6;
  bool sinks = true;
  std::int64_t value_dim = 6;
  static void describe(config::OptionTable<CappedOptions>& t) {
    t.add("cap", &CappedOptions::cap).doc("soft cap of attention's scores; 0: none");
    t.add("sinks", &CappedOptions::sinks).doc("sinks in attention");
    t.add("value_dim", &CappedOptions::value_dim).doc("numbers of a value");
    decoder::describe_rotary_sizes(t, "the gated feed-forward layer");
    decoder::describe_rotary_scaling(t);
    decoder::describe_window(t, "in block 0");
    decoder::describe_rotary_rest(t);
  }
};

class Capped : public decoder::Model {
 public:
  explicit Capped(config::Options<CappedOptions> options) : options_(std::move(options)) {}
  void check(Diagnostics&) const override {}

 protected:
  decoder::Spec spec() const override {
    auto made = options_->spec();
    if (options_->cap > 0) made.attention.soft_cap = options_->cap;
    made.attention.sinks = options_->sinks;
    made.attention.heads.value_dim = options_->value_dim;
    made.attention.window = options_->sliding_window;
    made.blocks_without_window = {1};
    made.attention_dropout = options_->attention_dropout;
    return made;
  }
  void describe_files(layout::FileMap&) const override {}

 private:
  config::Options<CappedOptions> options_;
};

const std::string model =
    "[model]\nplugin = \"capped\"\nvocab_size = 261\nnum_layers = 2\nseq_length = 24\ninit_std = 0.2\nhidden_size = "
    "16\n"
    "num_heads = 4\nnum_kv_heads = 2\nff_dim = 22\nsliding_window = 5\n";
const std::string packed = "[data]\npacking = true\n", recompute = "[strategy.recompute]\n";
const std::string tp = "[strategy.tensor_parallel]\nsize = 2\n", sp = tp + "sequence_parallel = true\n";

TrainResult learned(const std::string& config, int world) {
  auto run = context_setting(config, world);
  run.types.push_back(type<nn::Model, Capped, CappedOptions>("model", "capped"));
  return train(run);
}

std::string refusal(const std::string& config) {
  try {
    learned(config, 2);
  } catch (const Error& error) {
    return error.what();
  }
  return {};
}

}  // namespace

TEST_CASE("float64: caps, sinks and narrow values on ranks that share heads, tokens or parameters", "[matrix]") {
  for (const auto& same : {model, model + "attention_dropout = 0.1\n"}) {
    const auto one = learned(same, 1);
    CHECK(one.losses.back() < one.losses.front());
    REQUIRE(one.gradients.count("model.layers.0.self_attn.sinks") == 1);
    CHECK(one.gradients.at("model.layers.0.self_attn.sinks").abs().min().item<double>() > 0);
    for (const auto& [world, split] :
         std::vector<std::pair<int, std::string>>{{2, tp},
                                                  {2, sp},
                                                  {2, packed},
                                                  {2, recompute},
                                                  {2, "[strategy.fsdp]\n"},
                                                  {2, context_on(2, "ulysses")},
                                                  {2, context_on(2, "gather")},
                                                  {4, context_on(2, "gather") + packed + sp}}) {
      INFO(world << " ranks\n" << same << split);
      CHECK(differences(learned(same + split, world), one, context_tolerance) == "");
    }
  }
}

TEST_CASE("float64: units that keep what attention computed have the same gradients with caps and sinks") {
  const auto keep = recompute + "keep_attention = true\n";
  CHECK(differences(learned(model + keep, 1), learned(model, 1), context_tolerance) == "");
}

TEST_CASE("each option of attention changes what is learned") {
  const auto all = learned(model, 1);
  for (const char* other : {"cap = 0.0\n", "sinks = false\n", "value_dim = 0\n", "sliding_window = 4\n"}) {
    INFO(other);
    auto changed = model + other;
    if (std::string(other).starts_with("sliding")) changed.erase(changed.find("sliding_window = 5\n"), 19);
    CHECK(learned(changed, 1).losses != all.losses);
  }
}

TEST_CASE("what a ring cannot compute is refused where the ring was asked for") {
  const auto ring = context_on(2, "ring");
  CHECK_THAT(refusal(model + ring),
             Contains("strategy.context_parallel.method is ring, which cannot compute a soft cap, but "
                      "blocks.0/attention has it") &&
                 Contains("set method = \"ulysses\" or \"gather\""));
  CHECK_THAT(refusal(model + "cap = 0.0\nvalue_dim = 0\n" + ring), Contains("cannot compute sinks"));
  CHECK_THAT(refusal(model + "cap = 0.0\nsinks = false\n" + ring), Contains("values of another width than keys"));
  CHECK(refusal(model + "cap = 0.0\nsinks = false\nvalue_dim = 0\n" + ring).empty());
}

}  // namespace capped_test
