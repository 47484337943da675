#include "gpus/foreign_libraries.h"

#include <capstan/base/files.h>
#include <capstan/base/text.h>
#include <capstan_catch.h>

#include "support/folder.h"

namespace foreign_libraries_test {

namespace {
using namespace capstan::gpus;  // NOLINT(google-build-using-namespace)
using capstan::cat;
namespace fs = std::filesystem;

TEST_CASE("CUDA libraries that a module puts before our own are refused with their path") {
  const test::Folder root;
  const auto make = [&](const std::string& file) {
    fs::create_directories((root / file).parent_path());
    capstan::write_file(root / file, "x");
  };
  for (const char* name : {"own/libcudart.so.13", "own/libcudnn.so.9", "own/libcudnn_ops.so.9", "own/libnccl.so.2"})
    make(name);
  LibraryNeeds needs{{"libcudart.so.13", "libcudnn.so.9", "libnccl.so.2", "libm.so.6"}, {root / "own"}, false};
  const auto path = cat((root / "empty").string(), "::", (root / "module").string());
  CHECK(foreign_libraries(needs, "").empty());
  CHECK(foreign_libraries(needs, path).empty());
  make("module/libm.so.6");        // none of ours
  make("module/libcudart.so.12");  // another name: never taken
  CHECK(foreign_libraries(needs, path).empty());
  make("module/libnccl.so.2");
  auto found = foreign_libraries(needs, path);
  REQUIRE(found.size() == 1);
  CHECK_THROWS_WITH(refuse_foreign_libraries(found), Contains((root / "module/libnccl.so.2").string() + " instead of " +
                                                              (root / "own/libnccl.so.2").string()) &&
                                                         Contains("module unload cuda cudnn nccl"));
  needs.own_first = true;  // the loader looks into our folders first
  CHECK(foreign_libraries(needs, path).empty());
  make("module/libcudnn_ops.so.9");  // but cuDNN opens its parts by name
  CHECK(foreign_libraries(needs, path).size() == 1);
  // The same folder by another name is ours.
  fs::create_directory_symlink(root / "own", root / "link");
  CHECK(foreign_libraries(needs, (root / "link").string()).empty());
  CHECK_NOTHROW(refuse_foreign_libraries({}));
}

}  // namespace

}  // namespace foreign_libraries_test
