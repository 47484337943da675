#include <capstan_catch.h>
#include "nn/model_summary.h"

#include "support/model.h"

namespace ministral3_test {

using namespace capstan;
using namespace capstan::testing;

namespace {

const ModelOptions said{{"query_scaling", 0.1}, {"rope_original_length", std::int64_t{16}}};

}  // namespace

TEST_CASE("ministral3: presets have the published text models' parameters") {
  const std::map<std::string, std::int64_t> published{
      {"ministral3-3b", 3429006336}, {"ministral3-8b", 8489553920}, {"ministral3-14b", 13506073600}};
  CHECK(parameters_of_presets("ministral3") == published);
}

TEST_CASE("ministral3: queries grow from a length on, and both are said") {
  CHECK(model_faults("ministral3", {{"rope_original_length", std::int64_t{16}}}).size() == 1);
  CHECK(model_faults("ministral3", {{"query_scaling", 0.1}}).front().find("are not both set") != std::string::npos);
  CHECK(model_faults("ministral3", said).empty());
  const auto map = make_model("ministral3", said)->file_map();
  CHECK(std::find(map.left_out.begin(), map.left_out.end(), "rope_original_length") == map.left_out.end());
}

TEST_CASE("ministral3: heads have a width of their own") {
  auto options = said;
  options.emplace_back("head_dim", std::int64_t{6});
  const auto files = files_of(*make_model("ministral3", options));
  CHECK(files.at("layers.1.self_attn.q_proj.weight") == layout::Shape{24, 128});
  CHECK(files.at("layers.1.self_attn.o_proj.weight") == layout::Shape{128, 24});
}

}  // namespace ministral3_test
