// What is wrong with a text that should be JSON.
#include <capstan/base/encoding.h>
#include <capstan/base/json.h>
#include <capstan_catch.h>

#include <string>
#include <utility>
#include <vector>

namespace json_fault_test {

using namespace capstan;

namespace {

// What is said of a text that the parser refuses.
std::string fault(const std::string& text) {
  try {
    const auto json = Json::parse(text);
    REQUIRE_FALSE(json.is_discarded());
  } catch (const JsonParseError& error) {
    return json_fault(text, error);
  }
  return {};
}

}  // namespace

TEST_CASE("broken JSON is said with its place and in no library's words") {
  CHECK(json_fault("{\n \"a\": x}", 9) == "line 2, column 7: no JSON at 'x}'");
  CHECK(json_fault("{", 2) == "it ends before its JSON does, at line 1, column 2");
  CHECK(json_fault("{\"1e999\": 1, \"b\": -1e999}", 0) == "line 1, column 19: -1e999 is beyond any number");
}

TEST_CASE("JSON is deeper than it can be where lists are open, not where they stand in texts or next to each other") {
  const std::string open(100, '['), shut(100, ']');
  CHECK(json_depth_fault(open + shut) == "");
  CHECK(json_depth_fault("[" + open + "]" + shut) == "line 1, column 101: a list or an object inside of 100 others");
  CHECK(json_depth_fault("{\"a\":\n" + open + shut + "}") ==
        "line 2, column 100: a list or an object inside of 100 others");
  CHECK(json_depth_fault("[\"\\\"" + open + open + "\"]") == "");
  std::string wide;
  for (int i = 0; i < 1000; ++i) wide += "{},[],";
  CHECK(json_depth_fault("[" + wide + "0]") == "");
}

TEST_CASE("JSON that programs break in their own ways is said with what to do") {
  const std::string zero(1, '\0');
  const std::vector<std::pair<std::string, std::string>> cases{
      {"{\"a\": \"caf\xe9\"}",
       "line 1, column 11: the byte \\xe9 is no UTF-8: the file is in another encoding, most often Latin-1 or Windows' "
       "own, and `iconv -f WINDOWS-1252 -t UTF-8 OLD > NEW` makes UTF-8 of these"},
      {"{\"a\": \"x\xe9", "line 1, column 9: the byte \\xe9 is no UTF-8"},
      {"{\xe9: 1}", "line 1, column 2: the byte \\xe9 is no UTF-8"},
      {R"({"a": "b \ud83d"})",
       R"(line 1, column 10: \ud83d is half of a surrogate pair, that is of a character: write both halves, or take it out)"},
      {R"({"a": "\ud83d\u0041"})", R"(line 1, column 8: \ud83d is half)"},
      {R"({"a": "\ud83d\ude00 \ude00"})", R"(line 1, column 21: \ude00 is half)"},
      {R"({"a": "\\ud83d", "b": x})", R"(line 1, column 23: no JSON at 'x}')"},
      {R"({"a": NaN})", "line 1, column 7: NaN is no number in JSON: write null"},
      {R"({"a": nan})", "line 1, column 8: nan is no number in JSON: write null"},
      {R"({"a": -Infinity})", "line 1, column 8: Infinity is no number in JSON: write null"},
      {R"({"a": None})", "line 1, column 7: None is Python's word: write null"},
      {R"({"a": True})", "line 1, column 7: True is Python's word: write true"},
      {"{'a': 1}", "line 1, column 2: texts stand in double quotes, not in single ones"},
      {"{\"a\": \"b" + zero + "\"}",
       "line 1, column 9: the control character \\x00 stands there: take it out, or escape it"},
      {"{\"a\": \"b\tc\"}", "line 1, column 9: the control character \\t stands there"},
      {"{\"a\": \"b\nc\"}", "line 1, column 9: a line ends inside of a text: write \\n for it"},
      {R"({"a": 1} {"a": 2})", "line 1, column 10: something follows the end of the value"},
      {R"({"a": 1},)", "line 1, column 9: something follows the end of the value"},
      {R"({"a": [1, {"b": 2)", "it ends before its JSON does, at line 1, column 18"},
      {R"({"ü": "世界", b})", "line 1, column 13: no JSON at 'b}'"}};
  for (const auto& [text, said] : cases) {
    INFO(text);
    CHECK_THAT(fault(text), Catch::Matchers::StartsWith(said));
  }
  CHECK(fault("\xef\xbb\xbf{\"a\": \"\xc3\xbc \\ud83d\\ude00\"}").empty());  // a byte-order mark is skipped
}

TEST_CASE("UTF-16 is recognised with its byte-order mark and without") {
  const auto wide = [](const std::string& text, bool big) {
    std::string out;
    for (const char c : text) out += big ? std::string{'\0', c} : std::string{c, '\0'};
    return out;
  };
  const std::string json = R"({"a": 1})";
  const auto words = [](const std::string& name) {
    return "it is in UTF-16: make UTF-8 of it, as `iconv -f " + name + " -t UTF-8 OLD > NEW` does";
  };
  CHECK(fault("\xff\xfe" + wide(json, false)) == words("UTF-16"));
  CHECK(fault("\xfe\xff" + wide(json, true)) == words("UTF-16"));
  CHECK(fault(wide(json, false)) == words("UTF-16LE"));
  CHECK(fault(wide(json, true)) == words("UTF-16BE"));
  CHECK(utf16_fault(json).empty());
  CHECK(utf16_fault("").empty());
  CHECK(utf16_fault(std::string(2, '\0')).empty());
}

TEST_CASE("parse_json says where a file's text is broken, try_parse_json that it is none") {
  const std::string deep = std::string(101, '[') + std::string(101, ']');
  CHECK(parse_json("{\"a\": [1]}", "it is not JSON: ", "write it again", "a.json").at("a").size() == 1);
  CHECK_THROWS_WITH(parse_json("{\n x", "it is not JSON: ", "write it again", "a.json"),
                    Contains("a.json: it is not JSON: line 2, column 2: ") && Contains("fix: write it again"));
  CHECK_THROWS_WITH(parse_json("[1e999]", "it is not JSON: ", "", "a.json"), Contains("column 2: 1e999 is beyond any"));
  CHECK_THROWS_WITH(parse_json(deep, "it is not JSON: ", "", "a.json"),
                    Contains("line 1, column 101: a list or an object inside of 100 others"));
  CHECK(try_parse_json("{\"a\": 1}") == Json{{"a", 1}});
  for (const std::string& text : {std::string("{"), std::string("[1e999]"), deep})
    CHECK(try_parse_json(text).is_discarded());
}

}  // namespace json_fault_test
