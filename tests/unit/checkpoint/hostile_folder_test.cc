// Indexes and headers from elsewhere, which may say anything.
#include <capstan/base/text.h>
#include <capstan/checkpoint/safetensors.h>
#include <capstan_catch.h>

#include "support/errors.h"
#include "support/folder.h"

using namespace capstan;

namespace {

std::string index_error(const std::string& text) {
  const test::Folder folder;
  folder.write("model.safetensors.index.json", text);
  return test::error_of([&] { const checkpoint::SafetensorsFolder opened(folder.path()); });
}

std::string header_error(const std::string& json) {
  const test::Folder folder;
  std::string bytes;
  for (std::size_t i = 0; i < 8; ++i) bytes += static_cast<char>(json.size() >> (8 * i) & 0xFFU);
  folder.write("model.safetensors", bytes + json);
  return test::error_of([&] { const checkpoint::SafetensorsFolder opened(folder.path()); });
}

}  // namespace

TEST_CASE("an index leads only to files of its own folder") {
  for (const char* name : {"../../x", "/etc/passwd", "a/b", "..", "", "a\\u0000b"}) {
    INFO(name);
    CHECK_THAT(index_error(cat(R"({"weight_map": {"wte": ")", name, R"("}})")),
               Contains("no valid index: tensor 'wte' is said to be in ") &&
                   Contains("which is no name of a file in its folder"));
  }
  CHECK_THAT(index_error(R"({"weight_map": {"wte": 3}})"), Contains("is said to be in 3"));
}

TEST_CASE("broken indexes and headers are named in words, with their place") {
  for (const char* text : {"", "{", "[1, 2", "{\"weight_map\": 1e999}"}) {
    INFO(text);
    CHECK_THAT(index_error(text), Contains("no valid index: ") && Contains("line 1, column") && !Contains("json.exc"));
  }
  for (const char* text : {"{}", "[]", R"({"weight_map": []})"}) {
    INFO(text);
    CHECK_THAT(index_error(text), Contains("it has no \"weight_map\""));
  }
  CHECK_THAT(header_error("{\"a\": 1e999}"), Contains("its header is no valid JSON: line 1, column 7: 1e999"));
  CHECK_THAT(header_error("{\"a\""), Contains("its header is no valid JSON: ") && !Contains("json.exception"));
  CHECK_THAT(header_error(R"({"__metadata__": [1]})"), Contains("'__metadata__' is no object"));
}
