// JSON values: what they are made from, how they are compared, and what their readers are told.
#include <capstan/json/value.h>
#include <capstan_catch.h>

#include <algorithm>
#include <map>
#include <string>
#include <vector>

using capstan::Json;
using capstan::JsonError;
using capstan::JsonKeyError;
using capstan::JsonParseError;

namespace {

template <class Call>
std::string said(const Call& call) {
  try {
    call();
  } catch (const JsonError& error) {
    return error.what();
  }
  return "nothing";
}

}  // namespace

TEST_CASE("a braced list of pairs that begin with texts is an object, any other one a list") {
  CHECK(Json{{"a", 1}, {"b", {1, 2.5, "x"}}}.dump() == R"({"a":1,"b":[1,2.5,"x"]})");
  CHECK(Json{1, "a", nullptr, true}.dump() == R"([1,"a",null,true])");
  CHECK(Json{"a", "b"}.dump() == R"(["a","b"])");
  CHECK(Json{{"a", "b"}}.dump() == R"({"a":"b"})");
  CHECK(Json::array({{"a", "b"}}).dump() == R"([["a","b"]])");
  CHECK(Json::array().dump() + Json::object().dump() + Json().dump() == "[]{}null");
  CHECK(Json(std::vector<std::int64_t>{1, 2}).dump() == "[1,2]");
  CHECK(Json(std::map<std::string, double>{{"x", 1}}).dump() == R"({"x":1.0})");
  CHECK(Json(std::vector<Json>{nullptr, "a"}).dump() == R"([null,"a"])");
  CHECK(Json(std::string_view("abc").substr(1)).dump() == "\"bc\"");
}

TEST_CASE("an object keeps the order of its members, and the last of two equal keys counts") {
  CHECK(Json::parse(R"({"b": 1, "a": 2, "b": {"c": 3}})").dump() == R"({"b":{"c":3},"a":2})");
  Json json;
  json["z"] = 1;
  json["a"]["inside"] = 2;
  json["z"] = 3;
  CHECK(json.dump() == R"({"z":3,"a":{"inside":2}})");
  CHECK_FALSE(json.emplace("z", 4));
  CHECK(json.emplace("y", 4));
  CHECK(json.erase("a") == 1);
  CHECK(json.erase("a") == 0);
  CHECK(json.dump() == R"({"z":3,"y":4})");
  CHECK(json.sorted().dump() == R"({"y":4,"z":3})");
  json.update({{"x", 1}, {"z", 0}});
  CHECK(json.dump() == R"({"z":0,"y":4,"x":1})");
}

TEST_CASE("many members are found, replaced, taken out and copied") {
  Json json;
  for (int n = 0; n < 2000; ++n) json["key" + std::to_string(n)] = n;
  for (int n = 0; n < 2000; n += 3) CHECK(json.erase("key" + std::to_string(n)) == 1);
  const auto copy = json;
  json["key1"] = "other";
  for (int n = 0; n < 2000; ++n) {
    const auto key = "key" + std::to_string(n);
    REQUIRE(copy.contains(key) == (n % 3 != 0));
    if (n % 3 != 0) REQUIRE(copy.at(key) == n);
  }
  CHECK(json.size() == copy.size());
  CHECK(json.at("key1") == "other");
  CHECK(json.find("none") == json.end());
  CHECK(json != copy);
  CHECK(copy == copy.sorted());
}

TEST_CASE("values are equal by what they say, not by how it is written") {
  CHECK(Json(1) == Json(1.0));
  CHECK(Json(1U) == Json(1));
  CHECK(Json(1) != Json(true));
  CHECK(Json(0) != Json(nullptr));
  CHECK(Json("1") != Json(1));
  CHECK(Json{{"a", 1}, {"b", 2}} == Json{{"b", 2}, {"a", 1}});
  CHECK(Json{{"a", 1}} != Json{{"a", 1}, {"b", 2}});
  CHECK(Json{1, 2} != Json{2, 1});
  CHECK(Json::discarded() != Json::discarded());
  CHECK(Json(1) < Json(1.5));
  CHECK(Json(9007199254740993) > Json(9007199254740992));
  CHECK_FALSE(Json("a") < Json("b"));
  CHECK(Json::parse("18446744073709551615") != Json(-1));
}

TEST_CASE("items are gone through, changed and taken out") {
  auto json = Json::parse(R"({"a": null, "b": [1, 2, 3], "c": null})");
  for (auto item = json.begin(); item != json.end();) item = item->is_null() ? json.erase(item) : std::next(item);
  CHECK(json.dump() == R"({"b":[1,2,3]})");
  CHECK(json.begin().key() == "b");
  for (auto& item : json["b"]) item = item.get<int>() * 2;
  CHECK(json["b"] == Json{2, 4, 6});
  CHECK(std::find(json["b"].begin(), json["b"].end(), Json(4)) != json["b"].end());
  CHECK(json["b"].erase(json["b"].begin())->get<int>() == 4);
  CHECK(json["b"].front() == 4);
  CHECK(json["b"].back() == 6);
  int count = 0;
  for (const auto& [key, value] : Json().items()) count += key.empty() || value.is_null() ? 1 : 1;
  CHECK(count == 0);
  CHECK_THROWS_AS(json.at("b").items(), JsonError);
}

TEST_CASE("a value is read as what it is") {
  const auto json = Json::parse(R"({"n": 3, "x": 2.5, "t": "text", "l": [1, 2], "m": {"a": 1}, "f": false})");
  CHECK(json.at("n").get<int>() == 3);
  CHECK(json.at("n").get<double>() == 3.0);
  CHECK(json.at("x").get<std::int64_t>() == 2);
  CHECK(json.at("t").text() == "text");
  CHECK(json.at("l").get<std::vector<std::size_t>>() == std::vector<std::size_t>{1, 2});
  CHECK(json.at("m").get<std::map<std::string, int>>().at("a") == 1);
  CHECK(json.value("n", 0) == 3);
  CHECK(json.value("none", "absent") == "absent");
  CHECK(json.value("none", Json()).is_null());
  CHECK(json.value("f", true) == false);
}

TEST_CASE("whoever asks for another kind is told both") {
  const Json seven(7);
  CHECK_THROWS_AS(seven.begin(), JsonError);  // a loop over it would silently take no step
  CHECK(Json().begin() == Json().end());
  const auto json = Json::parse(R"({"cursor": {"samples": "many", "seed": 1.5}, "list": [1], "large": 300})");
  CHECK(said([&] { json.read<std::int64_t>("cursor.samples"); }) == "cursor.samples is a string, not a whole number");
  CHECK(said([&] { json.read<std::int64_t>("cursor.seed"); }) == "cursor.seed is a number, not a whole number");
  CHECK(said([&] { json.read<bool>("list"); }) == "list is a list, not true or false");
  CHECK(said([&] { json.read<int>("cursor.epoch"); }) == "cursor.epoch is missing");
  CHECK(said([&] { json.read<int>("list.a"); }) == "list is a list, not an object");
  CHECK(said([&] { json.read<std::vector<std::string>>("list"); }) == "list: it is a whole number, not a text");
  CHECK(said([&] { json.read<signed char>("large"); }) == "large: the number 300 is beyond what is counted with here");
  CHECK(json.read<double>("large") == 300.0);
  CHECK(json.read<std::vector<int>>("list") == std::vector<int>{1});
  CHECK_THROWS_AS(json.at("none"), JsonKeyError);
  CHECK(said([&] { json.at("none"); }) == "key 'none' not found");
  CHECK_THROWS_AS(json.at("list").at(1), JsonError);
  CHECK_THROWS_AS(json.at("large").text(), JsonError);
  CHECK_THROWS_AS(Json(1e300).get<std::int64_t>(), JsonError);
  CHECK_THROWS_AS(Json(-1).get<std::size_t>(), JsonError);
  CHECK_THROWS_AS(Json("a")["b"], JsonError);
  CHECK_THROWS_AS(Json("a").push_back(1), JsonError);
}

TEST_CASE(
    "what lies inside of 100 others is refused, and comments and repeated keys are seen where that is asked for") {
  const std::string open(100, '['), shut(100, ']');
  CHECK(Json::parse(open + shut).is_array());
  try {
    Json::parse("[" + open + shut + "]");
    FAIL("it is read");
  } catch (const JsonParseError& error) {
    CHECK(error.fault() == JsonParseError::Fault::depth);
  }
  std::vector<std::string> repeated;
  const std::string text = "{\"a\": 1, // one\n \"b\": {\"a\": 2, \"a\": 3} /* two */, \"a\": 4}";
  CHECK_THROWS_AS(Json::parse(text), JsonParseError);
  CHECK(Json::parse(text, {.comments = true, .repeated = &repeated}).dump() == R"({"a":4,"b":{"a":3}})");
  CHECK(repeated == std::vector<std::string>{"a", "a"});
}
