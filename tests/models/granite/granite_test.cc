#include <capstan_catch.h>
#include "nn/model_summary.h"

#include "support/model.h"

namespace granite_test {

using namespace capstan;
using capstan::testing::make_model;
using capstan::testing::model_faults;
using capstan::testing::model_host;
using Faults = std::vector<std::string>;

namespace {

std::int64_t integer(std::int64_t value) { return value; }

}  // namespace

TEST_CASE("granite: presets have the published models' parameters") {
  const std::map<std::string, std::int64_t> published{{"granite3.0-2b", 2533531648},
                                                      {"granite3.0-8b", 8170848256},
                                                      {"granite3.1-2b", 2533531648},
                                                      {"granite3.1-8b", 8170848256}};
  CHECK(model_host().load("model", "granite").presets.size() == published.size());
  for (const auto& [preset, parameters] : published) {
    INFO(preset);
    CHECK(nn::summarise(make_model("granite", {}, preset)->build()).parameters == parameters);
  }
}

TEST_CASE("granite: a score's multiplier is written where it is not set") {
  const auto more = [](const testing::ModelOptions& options) {
    return make_model("granite", options)->file_map().more;
  };
  CHECK(more({{"head_dim", integer(16)}}).at("attention_multiplier") == "0.25");
  CHECK_FALSE(more({{"attention_multiplier", 0.5}}).contains("attention_multiplier"));
}

TEST_CASE("granite: what does not fit is refused with its line and what to do") {
  CHECK(model_faults("granite", {{"logits_scaling", 0.0}}).size() == 1);
  CHECK_THAT(model_faults("granite", {{"model_type", std::string("granitemoe")}}).front(),
             Contains("model.model_type is \"granitemoe\", but must be one of \"granite\""));
}

}  // namespace granite_test
