#include <capstan/record/safetensors.h>

#include <capstan_catch.h>

#include "record/saved.h"

namespace mapped_tensors_test {

using namespace capstan;
using namespace capstan::checkpoint;

namespace {

const char* const header =
    R"({"a":{"dtype":"U8","shape":[2],"data_offsets":[0,2]},"b":{"dtype":"U8","shape":[0],"data_offsets":[2,2]},)"
    R"("c":{"dtype":"I16","shape":[1],"data_offsets":[2,4]},"__metadata__":{"format":"pt"}})";

}  // namespace

TEST_CASE("a file's tensors are found in its data, without copying it") {
  const test::Folder folder;
  const MappedTensors file(folder.write("a", saved::safetensors(header, "wxyz")));
  CHECK(file.tensors().size() == 3);
  CHECK(file.metadata() == std::map<std::string, std::string>{{"format", "pt"}});
  CHECK(std::string(reinterpret_cast<const char*>(file.bytes("c")), 2) == "yz");
  CHECK(layout::numel(file.info("b").shape) == 0);
  try {
    (void)file.info("d");
    FAIL("there is no such tensor");
  } catch (const Error& error) {
    CHECK(error.diagnostics().front().where == file.path().string());
  }
}

TEST_CASE("a file that ends early is a fault whose other tensors may be read, where somebody collects faults") {
  const test::Folder folder;
  const auto path = folder.write("a", saved::safetensors(header, "wxy"));
  CHECK_THROWS_AS(MappedTensors(path), Error);
  Diagnostics faults;
  const MappedTensors file(path, faults);
  REQUIRE(faults.size() == 1);
  CHECK(faults.list()[0].where == path);
  CHECK_THAT(faults.list()[0].what, Contains("1 tensor is cut off: c"));
  CHECK(file.is_whole(file.info("a")));
  CHECK_FALSE(file.is_whole(file.info("c")));
  Diagnostics none;
  CHECK_THROWS_AS(MappedTensors(folder.write("long", saved::safetensors(header, "wxyz!")), none), Error);
  CHECK(none.empty());
}

}  // namespace mapped_tensors_test
