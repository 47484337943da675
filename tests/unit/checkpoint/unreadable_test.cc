// Checkpoints that are there and cannot be read: never taken for absent, nor for damaged.
#include <capstan/base/files.h>
#include <capstan/base/paths.h>
#include <capstan/base/text.h>
#include <capstan_catch.h>

#include "checkpoint/faults.h"
#include "checkpoint/saving.h"
#include "checkpoint/scratch.h"
#include "record/manifest.h"
#include "support/ordinary_user.h"

using namespace capstan;
using namespace capstan::checkpoint;
using namespace saving;

namespace {

namespace fs = std::filesystem;

fs::path step(const Scratch& scratch, int number) { return step_folder(scratch / "checkpoints", number); }

// Two checkpoints; every user may read all of them.
void save_two(const Scratch& scratch) {
  WriterOptions options;
  options.folder = scratch / "checkpoints";
  for (const int number : {1, 2}) save_step(options, number);
  fs::permissions(scratch.path(), fs::perms::owner_all | fs::perms::others_read | fs::perms::others_exec);
}

// What each of `ranks` ranks is told when it looks for the newest checkpoint.
std::vector<std::string> told(int ranks, const fs::path& folder) {
  std::vector<std::string> out(static_cast<std::size_t>(ranks));
  on_ranks(ranks, [&](const auto& group) {
    out[static_cast<std::size_t>(group->rank())] = fault_of([&] { newest(folder, Depth::hashes, group.get()); });
  });
  return out;
}

void check_refused(const fs::path& folder, const std::string& reason) {
  CHECK_THAT(fault_of([&] { newest(folder, Depth::structure); }), Contains(reason));
  const auto all = told(3, folder);
  CHECK_THAT(all[0], Contains(reason));
  CHECK(all[1] == all[0]);
  CHECK(all[2] == all[0]);
}

}  // namespace

TEST_CASE("checkpoints that an ordinary user may not see are not absent") {
  const Scratch scratch;
  save_two(scratch);
  const auto folder = scratch / "checkpoints";
  REQUIRE(newest(folder, Depth::hashes).step == 2);
  fs::permissions(folder, fs::perms::none);
  {
    const test::OrdinaryUser user;
    check_refused(folder, folder.string() + ": cannot list it: Permission denied (EACCES)");
    CHECK_THROWS_WITH(committed(folder), Contains("EACCES"));
  }
  fs::permissions(folder, fs::perms::owner_all);
}

TEST_CASE("weights that an ordinary user may not read are not damaged, and no older ones take their place") {
  const Scratch scratch;
  save_two(scratch);
  const std::string name = GENERATE("weights-00000-of-00001.safetensors", "manifest.json", ".");
  const auto closed = step(scratch, 2) / name;
  const auto before = fs::status(closed).permissions();
  fs::permissions(closed, fs::perms::none);
  {
    const test::OrdinaryUser user;
    check_refused(scratch / "checkpoints",
                  step(scratch, 2).string() + ": this checkpoint cannot be read. It may be whole");
    check_refused(scratch / "checkpoints", "Permission denied (EACCES)");
    Diagnostics faults;
    CHECK_FALSE(verify(step(scratch, 2), Depth::hashes, faults));
    CHECK(faults.size() == 1);
  }
  fs::permissions(closed, before);
  Diagnostics faults;
  CHECK(verify(step(scratch, 2), Depth::hashes, faults));
}

TEST_CASE("a disk that fails, links in a circle and a file in the folder's place are refused") {
  const Scratch scratch;
  save_two(scratch);
  const auto folder = scratch / "checkpoints";
  const auto manifest = step(scratch, 2) / "manifest.json";
  SECTION("a disk that fails") {
    fs::remove(manifest);
    fs::create_symlink("/proc/self/mem", manifest);  // where the kernel refuses to read as a broken disk would
    check_refused(folder, manifest.string() + ": cannot read it: Input/output error (EIO)");
  }
  SECTION("links in a circle") {
    fs::remove(manifest);
    fs::create_symlink("manifest.json", manifest);
    check_refused(folder, manifest.string() + ": cannot look at it: Too many levels of symbolic links (ELOOP)");
  }
  SECTION("a circle of folders") {
    fs::rename(folder, scratch / "elsewhere");
    fs::create_symlink("checkpoints", folder);
    check_refused(folder, folder.string() + ": cannot list it: Too many levels of symbolic links (ELOOP)");
  }
  SECTION("a file") {
    fs::rename(folder, scratch / "elsewhere");
    write_file(folder, "");
    check_refused(folder, folder.string() + ": cannot list it: Not a directory (ENOTDIR)");
  }
  SECTION("what is not there, or is a folder instead of a file, is damage as before") {
    const auto file = step(scratch, 2) / "weights-00000-of-00001.safetensors";
    fs::remove(file);
    if (GENERATE(false, true)) fs::create_directory(file);
    const auto found = newest(folder, Depth::structure);
    CHECK(found.step == 1);
    CHECK(found.damaged == std::vector<fs::path>{step(scratch, 2)});
  }
}

TEST_CASE("a checkpoint that a newer Capstan has written is not damaged; one whose version is damaged is") {
  const Scratch scratch;
  save_two(scratch);
  const auto manifest = step(scratch, 2) / "manifest.json";
  auto text = read_file(manifest);
  const std::string version = "\"version\": 1";
  text.replace(text.find(version), version.size(), "\"version\": 2");
  write_file(manifest, text);
  const auto found = newest(scratch / "checkpoints", Depth::structure);
  CHECK(found.step == 1);
  CHECK(found.damaged == std::vector<fs::path>{step(scratch, 2)});
  write_file(manifest, sealed(text));
  check_refused(scratch / "checkpoints",
                step(scratch, 2).string() + ": this checkpoint cannot be read. It may be whole");
  check_refused(scratch / "checkpoints",
                "its format has version 2, this program reads 1: a newer Capstan has written it");
}

TEST_CASE("retention removes nothing while it cannot see all") {
  const Scratch scratch;
  save_two(scratch);
  const auto manifest = step(scratch, 1) / "manifest.json";
  const auto text = read_file(manifest);
  fs::remove(manifest);
  fs::create_symlink("/proc/self/mem", manifest);
  WriterOptions options;
  options.folder = scratch / "checkpoints";
  options.keep.last = 2;
  for (const int number : {3, 4}) save_step(options, number);
  CHECK(fs::exists(step(scratch, 1)));
  CHECK_FALSE(fs::exists(step(scratch, 2)));
  fs::remove(manifest);
  write_file(manifest, text);
  CHECK(newest(scratch / "checkpoints", Depth::hashes).step == 4);
}
