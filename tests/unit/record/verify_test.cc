#include "record/verify.h"

#include <capstan_catch.h>

#include <filesystem>
#include <fstream>

#include "record/saved.h"

namespace verify_test {

using namespace capstan;
using namespace capstan::checkpoint;

namespace {

// Overwrites the last byte of a file.
void damage(const std::filesystem::path& file) {
  std::fstream out(file, std::ios::in | std::ios::out | std::ios::binary);
  out.seekp(-1, std::ios::end);
  out.put('x');
}

}  // namespace

TEST_CASE("each rank hashes its share of the data, and all shares are the whole") {
  const test::Folder folder;
  saved::write(folder);
  damage(folder / "b.safetensors");
  std::vector<std::int64_t> bytes;
  std::vector<std::size_t> faults;
  for (const int rank : {0, 1}) {
    std::int64_t last = 0;
    const auto progress = [&](std::int64_t done, std::int64_t total) {
      CHECK(done <= total);
      last = done;
    };
    const auto found = verify_share(folder.path(), Depth::hashes, progress, rank, 2);
    CHECK(found.is_readable);
    bytes.push_back(last);
    faults.push_back(found.faults.size());
  }
  CHECK(bytes == std::vector<std::int64_t>{3, 3});
  CHECK(faults == std::vector<std::size_t>{0, 1});
  CHECK(verify_share(folder.path(), Depth::structure).faults.empty());
  const auto whole = verify_share(folder.path(), Depth::hashes);
  REQUIRE(whole.faults.size() == 1);
  CHECK(whole.faults.list()[0].where == (folder / "b.safetensors").string());
  CHECK_THAT(whole.faults.list()[0].what, Contains("'model/w[3:6]' is damaged"));
}

TEST_CASE("a folder without a manifest and files that are not there are faults of the checkpoint, not of the disk") {
  const test::Folder folder;
  CHECK(verify_share(folder / "none", Depth::structure).is_readable);
  CHECK(verify_share(folder.path(), Depth::structure).faults.size() == 1);
  saved::write(folder);
  std::filesystem::remove(folder / "a.safetensors");
  std::filesystem::remove(folder / "b.safetensors");
  std::filesystem::create_directory(folder / "b.safetensors");
  const auto found = verify_share(folder.path(), Depth::hashes);
  CHECK(found.is_readable);
  CHECK(found.faults.size() == 2);
}

TEST_CASE("a file whose header differs from the manifest is of another save") {
  const test::Folder folder;
  const auto tensor = saved::manifest().contents.tensors.at("model/w");
  const auto& entry = tensor.boxes[0];
  const auto header_fault = [&](const std::string& key, const std::string& dtype, int size) {
    const MappedTensors file(
        folder.write("a", saved::safetensors(cat("{\"", key, R"(":{"dtype":")", dtype, R"(","shape":[)", size,
                                                 R"(],"data_offsets":[0,)", size, "]}}"),
                                             std::string(static_cast<std::size_t>(size), 'a'))));
    try {
      check_header(file, "model/w", tensor, entry);
    } catch (const Error& error) {
      CHECK_THAT(error.diagnostics().front().fix, Contains("not of one save"));
      return error.diagnostics().front().what;
    }
    return std::string();
  };
  CHECK(header_fault("model/w[0:3]", "U8", 3).empty());
  CHECK_THAT(header_fault("model/w[0:4]", "U8", 3), Contains("it has no 'model/w[0:3]'"));
  CHECK_THAT(header_fault("model/w[0:3]", "I8", 3), Contains("is I8 [3], the manifest says U8 [3]"));
  CHECK_THAT(header_fault("model/w[0:3]", "U8", 4), Contains("is U8 [4], the manifest says U8 [3]"));
}

}  // namespace verify_test
