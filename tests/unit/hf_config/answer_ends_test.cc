#include "hf/config_json.h"

#include <capstan/base/json.h>

#include <capstan_catch.h>

namespace answer_ends_test {

using namespace capstan;
using Ids = std::vector<std::int64_t>;

namespace {

// What the file says after it got these ids, and which it lacked.
std::pair<std::string, Ids> with(const std::string& text, const Ids& ends) {
  Ids added;
  auto out = hf::with_answer_ends(text, ends, added);
  return {out, added};
}

std::string said(const std::string& text, const Ids& ends) {
  return Json::parse(with(text, ends).first).at("eos_token_id").dump();
}

}  // namespace

TEST_CASE("ids that answers end with are added to those that a file has, whose other keys stay in their order") {
  CHECK(said(R"({"eos_token_id": 257})", {257, 260}) == "[257,260]");
  CHECK(said(R"({"eos_token_id": [2, 7]})", {7, 260, 261}) == "[2,7,260,261]");
  CHECK(said(R"({"eos_token_id": null})", {260}) == "260");
  CHECK(said("{}", {260}) == "260");
  const auto [text, added] = with(R"({"top_p": 0.9, "eos_token_id": 2, "do_sample": true})", {2, 260});
  CHECK(text == "{\n  \"top_p\": 0.9,\n  \"eos_token_id\": [\n    2,\n    260\n  ],\n  \"do_sample\": true\n}\n");
  CHECK(added == Ids{260});
}

TEST_CASE("a file that has all of them stays as it is, to the byte") {
  for (const std::string text :
       {R"({ "eos_token_id":[257,260] , "a":1})", R"({"eos_token_id": 260})", "[]", "no JSON"}) {
    INFO(text);
    CHECK(with(text, {260}) == std::pair(text, Ids()));
  }
  CHECK(with(R"({"a":1})", {}).first == R"({"a":1})");
}

}  // namespace answer_ends_test
