#include <capstan_catch.h>

#include "support/model.h"

namespace apertus_test {

using namespace capstan;
using namespace capstan::testing;

TEST_CASE("apertus: presets have the published models' parameters") {
  CHECK(parameters_of_presets("apertus") ==
        std::map<std::string, std::int64_t>{{"apertus-8b", 8053338240}, {"apertus-70b", 70599864640}});
}

TEST_CASE("apertus: a block's function has two trained numbers, and two that files hold without dimensions") {
  const auto model = make_model("apertus", tiny_with({}));
  const std::string function = "layers.0.mlp.act_fn.";
  const auto files = files_of(*model);
  for (const char* name : {"alpha_p", "alpha_n"}) CHECK(files.at(function + name) == layout::Shape{1});
  const auto records = records_of(*model);
  for (const char* name : {"beta", "eps"}) {
    CHECK(files.at(function + name) == layout::Shape{});
    const auto& record = records.at("model." + function + name);
    CHECK_FALSE(record.trainable);
    CHECK(record.usage == layout::Usage::buffer);
  }
  CHECK(files.at("layers.0.mlp.up_proj.weight") == layout::Shape{20, 16});
}

TEST_CASE("apertus: positions that are not scaled are said in files, where transformers would take scaled ones") {
  const auto more = [](const ModelOptions& options) {
    return make_model("apertus", tiny_with(options))->file_map().more;
  };
  CHECK_THAT(more({}).at("rope_parameters"), Contains("\"default\""));
  const ModelOptions scaled{{"rope_type", std::string("llama3")}, {"rope_factor", 8.0}};
  CHECK_FALSE(more(scaled).contains("rope_parameters"));
}

}  // namespace apertus_test
