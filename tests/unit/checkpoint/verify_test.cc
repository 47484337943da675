#include <capstan/base/files.h>
#include <capstan/base/text.h>
#include <capstan_catch.h>

#include "checkpoint/damage.h"
#include "checkpoint/faults.h"
#include "checkpoint/saving.h"
#include "checkpoint/scratch.h"
#include "record/manifest.h"
#include "support/disk_mark.h"

namespace verify_test {

using namespace capstan;
using namespace capstan::checkpoint;
using namespace saving;
using layout::Axis;
using layout::Box;
using layout::Mesh;

namespace {

namespace fs = std::filesystem;

std::vector<std::string> faults_of(const fs::path& path, Depth depth, comm::Group* group = nullptr) {
  Diagnostics faults;
  verify(path, depth, faults, group);
  std::vector<std::string> out;
  for (const auto& fault : faults.list()) out.push_back(fault.text());
  return out;
}

constexpr const char* copy_fix = "\n    fix: copy the folder again, with all its files, or take another checkpoint";

}  // namespace

TEST_CASE("missing, truncated and longer files are named at once, on opening") {
  const Scratch scratch;
  const auto path = scratch / "weights";
  save_at(path, records(), Mesh({{Axis::dp, 4}}));
  const auto file = [&](int rank) { return path / cat("weights-0000", rank, "-of-00004.safetensors"); };
  CHECK(faults_of(path, Depth::hashes).empty());
  const auto length = fs::file_size(file(1));
  fs::remove(file(0));
  fs::resize_file(file(1), length - 1);
  fs::resize_file(file(2), fs::file_size(file(2)) + 8);
  const std::vector<std::string> expected{
      cat(file(0).string(), ": cannot look at it: No such file or directory", copy_fix),
      cat(file(1).string(), ": it has ", length - 1, " bytes, the manifest says ", length, copy_fix),
      cat(file(2).string(), ": it has ", fs::file_size(file(2)), " bytes, the manifest says ",
          fs::file_size(file(2)) - 8, copy_fix)};
  CHECK(faults_of(path, Depth::structure) == expected);
  CHECK(faults_of(path, Depth::hashes) == expected);
  CHECK(fault_of([&] { Reader reader(path); }) == join(expected, "\n"));
}

TEST_CASE("flipped bits are named at once by verify, and by a reader when it touches them") {
  const Scratch scratch;
  const auto path = scratch / "weights";
  const auto all = records();
  save_at(path, all, Mesh({{Axis::dp, 2}}));
  // bfloat16 stands last in a file: experts.
  const auto first = path / "weights-00000-of-00002.safetensors";
  const auto second = path / "weights-00001-of-00002.safetensors";
  flip_bit(first);
  flip_bit(second);
  const std::vector<std::string> expected{damaged_text(first, "model/experts[0:4, 0:2, 0:3, 0:3]"),
                                          damaged_text(second, "model/experts[0:4, 0:2, 3:5, 0:3]")};
  CHECK(faults_of(path, Depth::structure).empty());
  CHECK(faults_of(path, Depth::hashes) == expected);
  for (const int ranks : {2, 3}) {
    on_ranks(ranks, [&](const auto& group) {
      if (faults_of(path, Depth::hashes, group.get()) != expected) throw std::logic_error("not all faults");
    });
  }
  Reader reader(path);
  auto wte = at::empty({7, 6});
  CHECK_NOTHROW(reader.read("model/wte.weight", Box::whole({7, 6}), wte));
  CHECK(at::equal(wte, all[0].value));
  auto row = at::empty({4, 2, 1, 3});
  CHECK(fault_of([&] { reader.read("model/experts", {{0, 0, 3, 0}, {4, 2, 1, 3}}, row); }) == expected[1]);
}

TEST_CASE("who reads or verifies a checkpoint says so, for the others that wait") {
  const Scratch scratch;
  const auto path = scratch / "weights";
  save_at(path, {record("wide", {64, 1024}, at::kFloat, {})}, Mesh());
  Reader reader(path);
  const auto out = at::empty({64, 1024});
  const auto mark = "reading " + path.string();
  CHECK(test::is_marked(mark, [&] { reader.read("model/wide", Box::whole({64, 1024}), out); }));
  CHECK(test::is_marked(mark, [&] { faults_of(path, Depth::hashes); }));
}

TEST_CASE("files of two saves in one folder are told apart") {
  const Scratch scratch;
  save_at(scratch / "a", records(), Mesh({{Axis::dp, 2}}));
  auto others = records();
  others[3].value = others[3].value.to(at::kDouble);
  save_at(scratch / "b", others, Mesh({{Axis::dp, 2}}));
  const auto path = scratch / "a/weights-00001-of-00002.safetensors";
  fs::copy_file(scratch / "b/weights-00001-of-00002.safetensors", path, fs::copy_options::overwrite_existing);
  const auto expected =
      path.string() +
      ": 'model/steps[3:5]' is F64 [2], the manifest says I64 [2]\n    fix: the files are not of one save: copy the "
      "folder again";
  CHECK(faults_of(scratch / "a", Depth::structure) == std::vector<std::string>{expected});
  Reader reader(scratch / "a");
  auto out = at::empty({5}, at::kLong);
  CHECK(fault_of([&] { reader.read("model/steps", Box::whole({5}), out); }) == expected);
}

TEST_CASE("verifying says how far it is") {
  const Scratch scratch;
  std::vector<Record> one;
  one.push_back(record("wide", {3, hashed_bytes / 4}, at::kFloat, {}));
  save_at(scratch / "weights", one, Mesh());
  std::vector<std::int64_t> seen;
  const auto verdict = verify_share(scratch / "weights", Depth::hashes, [&](std::int64_t done, std::int64_t total) {
    CHECK(total == 3 * hashed_bytes);
    seen.push_back(done);
  });
  CHECK(verdict.faults.empty());
  CHECK(seen == std::vector<std::int64_t>{hashed_bytes, 2 * hashed_bytes, 3 * hashed_bytes});
}

}  // namespace verify_test
