#include <ATen/ATen.h>
#include <capstan/base/files.h>
#include <capstan/base/text.h>
#include <capstan/checkpoint/safetensors.h>
#include <capstan_catch.h>

#include "checkpoint/faults.h"
#include "checkpoint/scratch.h"
#include "hf/safetensors_folder.h"
#include "support/errors.h"
#include "support/folder.h"

namespace safetensors_folder_test {

using namespace capstan;
using namespace capstan::checkpoint;
using hf::SafetensorsFolder;

namespace {

std::string index_error(const std::string& text) {
  const test::Folder folder;
  folder.write("model.safetensors.index.json", text);
  return test::error_of([&] { const SafetensorsFolder opened(folder.path()); });
}

std::string header_error(const std::string& json) {
  const test::Folder folder;
  std::string bytes;
  for (std::size_t i = 0; i < 8; ++i) bytes += static_cast<char>(json.size() >> (8 * i) & 0xFFU);
  folder.write("model.safetensors", bytes + json);
  return test::error_of([&] { const SafetensorsFolder opened(folder.path()); });
}

}  // namespace

TEST_CASE("sharded files are found through their index, which is checked") {
  const Scratch scratch;
  write_safetensors(scratch / "model-00001-of-00002.safetensors", {{"a", at::ones({3})}});
  write_safetensors(scratch / "model-00002-of-00002.safetensors", {{"b", at::ones({5})}});
  const auto index = scratch / "model.safetensors.index.json";
  write_file(index, R"({"metadata":{"total_size":32},"weight_map":{"a":"model-00001-of-00002.safetensors",)"
                    R"("b":"model-00002-of-00002.safetensors"}})");
  const SafetensorsFolder folder(scratch.path());
  CHECK(folder.names() == std::vector<std::string>{"a", "b"});
  CHECK(folder.find("b")->info("b").shape == layout::Shape{5});
  CHECK(folder.find("c") == nullptr);

  write_file(index, R"({"weight_map":{"a":"model-00001-of-00002.safetensors","b":"model-00001-of-00002.safetensors",)"
                    R"("c":"gone.safetensors","d":"gone.safetensors"}})");
  CHECK(fault_of([&] { SafetensorsFolder(scratch.path()); }) ==
        index.string() +
            ": says that 'model-00001-of-00002.safetensors' holds tensor 'b', but it does not\n    fix: "
            "they are of different downloads: download the folder again\n" +
            index.string() + ": names 'gone.safetensors', which is not there\n    fix: download the missing file");
  write_file(index, R"({"metadata":{}})");
  CHECK_THAT(fault_of([&] { SafetensorsFolder(scratch.path()); }),
             Contains(index.string() + ": no valid index: ") && Contains("weight_map") &&
                 Contains("fix: it is damaged: copy or download it again"));
}

TEST_CASE("folders without safetensors are refused in words") {
  const Scratch scratch;
  const auto open = [](const std::filesystem::path& path) { return fault_of([&] { SafetensorsFolder folder(path); }); };
  CHECK(open(scratch / "gone") == (scratch / "gone").string() + ": no such folder");
  CHECK(open(scratch.path()) == scratch.path().string() +
                                    ": it holds neither model.safetensors nor model.safetensors.index.json\n    fix: "
                                    "name the folder of a model");
  write_file(scratch / "config.json", "{}");
  CHECK_THAT(open(scratch.path()), Contains("fix: its weights are missing: download the model's *.safetensors"));
  write_file(scratch / "model-00002-of-00002.safetensors", "x");
  CHECK(open(scratch.path()) == scratch.path().string() +
                                    ": it holds model-00002-of-00002.safetensors, but no model.safetensors.index.json "
                                    "that says what is in which file\n    fix: download the model's "
                                    "model.safetensors.index.json too");
  std::filesystem::remove(scratch / "model-00002-of-00002.safetensors");
  write_file(scratch / "pytorch_model-00001-of-00002.bin", "x");
  CHECK_THAT(open(scratch.path()), Contains("its weights are pickled .bin files, which run code when opened") &&
                                       Contains("save_pretrained(\"" + scratch.path().string() + "\")'"));
}

// Indexes and headers from elsewhere may say anything.
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

}  // namespace safetensors_folder_test
