#include <capstan/record/checkpoints.h>

#include <capstan_catch.h>

#include "record/saved.h"

namespace checkpoint_test {

using namespace capstan;
using namespace capstan::checkpoint;

TEST_CASE("a checkpoint is what its manifest says, and what it lacks is refused with the manifest's place") {
  const test::Folder folder;
  saved::write(folder);
  const Checkpoint checkpoint(folder.path());
  CHECK(checkpoint.section("cursor") == R"({"sample":3})");
  CHECK(checkpoint.tensors("model/") == std::vector<std::string>{"model/w"});
  CHECK(checkpoint.tensors("optimizer/").empty());
  CHECK(checkpoint.shape("model/w") == layout::Shape{6});
  const auto where_of = [](const auto& asks) {
    try {
      asks();
    } catch (const Error& error) {
      return error.diagnostics().front().where;
    }
    return std::string();
  };
  const auto manifest = (folder / "manifest.json").string();
  CHECK(where_of([&] { (void)checkpoint.section("scaler"); }) == manifest);
  CHECK(where_of([&] { (void)checkpoint.dtype("model/v"); }) == manifest);
}

TEST_CASE("a checkpoint whose files are gone is opened by nobody, and all of them are named") {
  const test::Folder folder;
  saved::write(folder);
  std::filesystem::remove(folder / "a.safetensors");
  folder.write("b.safetensors", "short");
  try {
    const Checkpoint checkpoint(folder.path());
    FAIL("a file is missing, another is short");
  } catch (const Error& error) {
    CHECK(error.diagnostics().size() == 2);
  }
}

}  // namespace checkpoint_test
