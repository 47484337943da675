#include <capstan/decoder/layer_norm_options.h>

#include <capstan_catch.h>

#include <map>

namespace layer_norm_options_test {

using namespace capstan;

namespace {

// A family whose config.json calls some sizes what the options are called.
struct OwnNames : decoder::LayerNormOptions {
  static void describe(config::OptionTable<OwnNames>& t) {
    decoder::describe_layer_norm_sizes(t,
                                       {"hidden_size", {"num_layers", "num_hidden_layers"}, {"num_attention_heads"}});
  }
};

}  // namespace

TEST_CASE("a size that files call what the option is called has no spelling that is its key") {
  std::map<std::string, std::vector<std::string>> spellings;
  for (const auto& spec : config::Options<OwnNames>::schema()) spellings[spec.key] = spec.spellings;
  CHECK(spellings.at("hidden_size").empty());
  CHECK(spellings.at("num_layers") == std::vector<std::string>{"num_hidden_layers"});
  CHECK(spellings.at("num_heads") == std::vector<std::string>{"num_attention_heads"});
}

}  // namespace layer_norm_options_test
