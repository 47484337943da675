#include "record/fingerprint.h"

#include <capstan/base/files.h>
#include <capstan/base/text.h>
#include <capstan_catch.h>

#include <filesystem>

#include "record/saved.h"

namespace fingerprint_test {

using namespace capstan;

namespace {

// A tensor of bytes, in a file of its own.
std::string file_of(const std::string& name, const std::string& bytes) {
  return saved::safetensors(
      cat(R"({")", name, R"(":{"dtype":"U8","shape":[)", bytes.size(), R"(],"data_offsets":[0,)", bytes.size(), "]}}"),
      bytes);
}

std::string print_of(const test::Folder& folder) { return record::fingerprint(folder.path()); }

}  // namespace

TEST_CASE(
    "other weights, names, shapes or sizes of a model give another fingerprint, another name of a file does not") {
  const test::Folder folder;
  (void)folder.write("config.json", "{}");
  const std::string small = "some weights";
  std::string large(std::size_t{1} << 20, 'a');
  const auto a = folder.write("a.safetensors", file_of("x", small));
  const auto b = folder.write("b.safetensors", file_of("y", large));
  const auto first = print_of(folder);
  CHECK(first.size() == 16);
  CHECK(print_of(folder) == first);
  const auto differs = [&](const char* name, const std::string& text) {
    const auto before = read_file(folder.path() / name);
    (void)folder.write(name, text);
    const auto now = print_of(folder);
    (void)folder.write(name, before);
    CHECK(print_of(folder) == first);
    return now != first;
  };
  CHECK(differs("config.json", "{ }"));
  CHECK(differs("a.safetensors", file_of("x", "Some weights")));  // a small tensor has all of its bytes in it
  CHECK(differs("a.safetensors", file_of("x", "some weightS")));
  CHECK(differs("a.safetensors", file_of("z", small)));
  CHECK(differs("b.safetensors", file_of("y", std::string(large.size(), 'b'))));
  for (const auto at : {std::size_t{0}, large.size() - 1}) {  // the first and the last piece
    auto other = large;
    other[at] = 'b';
    CHECK(differs("b.safetensors", file_of("y", other)));
  }
  // Between two pieces: what a fingerprint does not promise to see.
  auto between = large;
  between[100] = 'b';
  CHECK_FALSE(differs("b.safetensors", file_of("y", between)));
  std::filesystem::rename(a, folder.path() / "c.safetensors");
  (void)folder.write("README.md", "more");
  CHECK(print_of(folder) == first);
}

TEST_CASE("a folder whose weights are damaged has no fingerprint") {
  const test::Folder folder;
  (void)folder.write("a.safetensors", "no header");
  CHECK_THROWS_WITH(print_of(folder), Contains("a.safetensors"));
}

}  // namespace fingerprint_test
