// config.json files that describe no model, or another than they seem to.
#include <capstan_catch.h>

#include "assembly/model_file.h"
#include "support/errors.h"
#include "support/folder.h"

using namespace capstan;

namespace {

struct Decoder {
  std::int64_t vocab_size = 258;
  std::int64_t num_heads = 4;
  std::optional<std::int64_t> ff_dim;
  double theta = 1e4;
  double factor = 1;
  static void describe(config::OptionTable<Decoder>& t) {
    t.add("vocab_size", &Decoder::vocab_size).doc("");
    t.add("num_heads", &Decoder::num_heads).spelling("n_head").doc("");
    t.add("ff_dim", &Decoder::ff_dim).spelling("n_inner").doc("");
    t.add("rope_theta", &Decoder::theta).spelling("rope_parameters.rope_theta").doc("");
    t.add("rope_factor", &Decoder::factor).spelling("rope_scaling.factor").spelling("rope_parameters.factor").doc("");
  }
};

// What is said of a config.json with this text; "" and the heads that it gives when nothing is.
std::string said(const std::string& text, std::vector<config::Entry> own = {}) {
  const test::Folder folder;
  folder.write("config.json", text);
  const auto schema = config::Options<Decoder>::schema();
  Diagnostics faults;
  const auto error = test::error_of([&] {
    const auto section =
        assembly::with_model_file({"model", {}, std::move(own)}, {folder.path().string(), "a.toml:3"}, schema);
    config::Options<Decoder> options(section, faults);
    faults.throw_if_any();
  });
  return error;
}

}  // namespace

TEST_CASE("a config.json says all sizes, or the configuration does") {
  CHECK(said(R"({"vocab_size": 10, "n_head": 2})").empty());
  CHECK_THAT(said(R"({"vocab_size": 10})"),
             Contains("config.json: it does not say how large the model is: num_heads or n_head is missing") &&
                 Contains("set model.num_heads"));
  CHECK_THAT(said(R"({"vocab_size": 10, "n_head": null})"), Contains("num_heads or n_head is missing"));
  CHECK(said(R"({"vocab_size": 10})", {{"num_heads", std::int64_t{2}, {}}}).empty());
  CHECK_THAT(said(R"({"vocab_size": 10, "n_head": []})"), Contains("model.num_heads is \"[]\""));
  CHECK_THAT(said(R"({"vocab_size": 10, "n_head": {"a": 1}})"), Contains("must be an integer"));
}

TEST_CASE("what is no object describes no model, and no library's message is shown") {
  for (const char* text : {"[]", "null", "3", "\"x\""}) {
    INFO(text);
    CHECK_THAT(said(text), Contains("config.json: it is ") && Contains(", not an object of a model's options"));
  }
  for (const char* text : {"", "{", "{\"n_head\": 1e999}", "{\"a\": \"\xff\"}"}) {
    INFO(text);
    CHECK_THAT(said(text), Contains("it is not JSON: ") && Contains("line 1, column") && !Contains("exception") &&
                               !Contains("syntax error"));
  }
}

TEST_CASE("rotary tables with unknown keys are refused, with the nearest name") {
  const auto with = [](const std::string& rope) { return R"({"vocab_size": 10, "n_head": 2, )" + rope + "}"; };
  CHECK(said(with(R"("rope_parameters": {"rope_theta": 5e5, "factor": 2.0, "partial_rotary_factor": 1.0})")).empty());
  CHECK(said(with(R"("rope_parameters": null, "rope_scaling": {"factor": 2.0})")).empty());
  CHECK_THAT(said(with(R"("rope_parameters": "x")")), Contains("rope_parameters is \"x\", not an object"));
  CHECK_THAT(said(with(R"("rope_parameters": {"rope_teta": 5e5})")),
             Contains("rope_parameters.rope_teta = 500000.0 is unknown") && Contains("did you mean 'rope_theta'?"));
  CHECK_THAT(said(with(R"("rope_scaling": {"partial_rotary_factor": 0.5})")), Contains("is unknown"));
}
