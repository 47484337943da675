#include <capstan/decoder/rotary_options.h>

#include <capstan_catch.h>

#include <cstdint>
#include <set>
#include <string>
#include <vector>

#include "support/options.h"

namespace rotary_options_test {

using namespace capstan;

namespace {

using Names = std::vector<std::string>;

struct Scaled : decoder::RotaryOptions {
  static void describe(config::OptionTable<Scaled>& t) {
    decoder::describe_rotary_sizes(t, "the feed-forward layer");
    decoder::describe_rotary_scaling(t);
    decoder::describe_rotary_rest(t);
  }
};

Names together(Names all, const Names& more) {
  all.insert(all.end(), more.begin(), more.end());
  return all;
}

}  // namespace

TEST_CASE("YaRN keeps wavelengths that turn more often than those that it divides") {
  const auto options = testing::options_of<Scaled>("model", {{"rope_type", std::string("yarn")},
                                                             {"rope_factor", 4.0},
                                                             {"rope_original_length", std::int64_t{16}},
                                                             {"rope_slow_turns", 40.0}});
  Diagnostics faults;
  decoder::check_rotary_scaling(options, faults);
  REQUIRE(faults.size() == 1);
  CHECK(faults.list()[0].where == "a.toml:5");
  CHECK_THAT(faults.list()[0].what, Contains("model.rope_slow_turns 40 is not below model.rope_fast_turns 32"));
}

TEST_CASE("a block has a window where the list says so, and beyond the list from max_window_layers on") {
  decoder::WindowOptions windows;
  windows.max_window_layers = 2;
  CHECK(windows.blocks_without_window(4) == std::set<std::int64_t>{0, 1});
  windows.layer_types = {"sliding_attention", "full_attention"};
  CHECK(windows.blocks_without_window(4) == std::set<std::int64_t>{1});
  windows.max_window_layers = 3;
  CHECK(windows.blocks_without_window(4) == std::set<std::int64_t>{1, 2});
}

TEST_CASE("a list of blocks' types is completed by every so many") {
  decoder::WindowOptions options;
  options.layer_types = {"full_attention"};
  using Types = std::vector<std::string>;
  CHECK(options.completed(4, 3).layer_types ==
        Types{"full_attention", "sliding_attention", "full_attention", "sliding_attention"});
  CHECK(options.completed(1, 3).layer_types == options.layer_types);
}

TEST_CASE("a file says of each block whether it has a window") {
  decoder::RotaryOptions options;
  options.num_layers = 3;
  options.sliding_window = 9;
  decoder::WindowOptions windows;
  windows.max_window_layers = 1;
  windows.use_sliding_window = true;
  layout::FileMap used;
  decoder::describe_window_files(options, windows, true, used);
  CHECK(used.more.at("layer_types") == R"(["full_attention", "sliding_attention", "sliding_attention"])");
  CHECK(used.left_out == Names{"layer_types"});
  windows.use_sliding_window.reset();
  layout::FileMap unused;
  decoder::describe_window_files(options, windows, true, unused);
  CHECK(unused.more.at("layer_types") == R"(["full_attention", "full_attention", "full_attention"])");
  CHECK(unused.left_out == Names{"layer_types", "use_sliding_window"});
  layout::FileMap of_others;
  decoder::describe_window_files(options, windows, false, of_others);
  CHECK(of_others.more.empty());
  CHECK(of_others.left_out == Names{"layer_types", "max_window_layers", "use_sliding_window"});
}

TEST_CASE("a file has only the options of its scaling, and the longest sequence that it allows") {
  decoder::RotaryOptions options;
  options.rope_original_length = 16;
  options.seq_length = 100;
  layout::FileMap plain;
  decoder::describe_rotary_scaling_files(options, plain);
  CHECK(plain.left_out.size() == 13);
  CHECK(plain.more.empty());

  options.rope_type = "llama3";
  options.rope_factor = 8;
  layout::FileMap llama3;
  decoder::describe_rotary_scaling_files(options, llama3);
  const Names of_longrope{"rope_short_factors", "rope_long_factors"};
  const Names of_yarn{"rope_fast_turns",       "rope_slow_turns", "rope_whole_limits",
                      "rope_attention_factor", "rope_mscale",     "rope_mscale_all"};
  CHECK(llama3.left_out == together(of_yarn, of_longrope));
  CHECK(llama3.more.empty());
  options.seq_length = 16;  // asked for, and shorter than the model allows
  layout::FileMap shortened;
  decoder::describe_rotary_scaling_files(options, shortened);
  CHECK(shortened.more.at("max_position_embeddings") == "128");

  options.rope_type = "yarn";
  options.rope_slow_turns = 2;
  layout::FileMap yarn;
  decoder::describe_rotary_scaling_files(options, yarn);
  CHECK(yarn.left_out == together({"rope_low_frequency_factor", "rope_high_frequency_factor", "rope_fast_turns",
                                   "rope_whole_limits", "rope_attention_factor", "rope_mscale", "rope_mscale_all"},
                                  of_longrope));
  CHECK(yarn.more.at("max_position_embeddings") == "128");

  options.rope_type = "longrope";
  options.rope_factor = 2.0625;  // the ratio of two lengths, 33 and 16
  layout::FileMap longrope;
  decoder::describe_rotary_scaling_files(options, longrope);
  CHECK(longrope.left_out ==
        together({"rope_low_frequency_factor", "rope_high_frequency_factor"}, together(of_yarn, {"rope_factor"})));
  CHECK(longrope.more.at("max_position_embeddings") == "33");
}

}  // namespace rotary_options_test
