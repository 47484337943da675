#include <capstan/base/files.h>
#include <capstan/base/paths.h>
#include <capstan/base/text.h>
#include <capstan_catch.h>

#include "checkpoint/damage.h"
#include "checkpoint/faults.h"
#include "checkpoint/saving.h"
#include "checkpoint/scratch.h"
#include "record/manifest.h"
#include "support/ordinary_user.h"

namespace checkpoint_search_test {

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

TEST_CASE("the newest valid checkpoint is found, and why newer ones are not") {
  const Scratch scratch;
  CHECK_FALSE(newest(scratch / "checkpoints", Depth::hashes).path.has_value());
  WriterOptions options;
  options.folder = scratch / "checkpoints";
  for (const int step : {9, 10, 100, 101}) save_step(options, step, step);
  const auto folder = [&](int step) { return step_folder(options.folder, step); };
  CHECK(committed(options.folder) == std::vector<fs::path>{folder(101), folder(100), folder(10), folder(9)});
  const auto file = "weights-00000-of-00001.safetensors";
  flip_bit(folder(101) / file);
  fs::resize_file(folder(100) / file, 100);
  fs::remove(folder(10) / "manifest.json");
  fs::create_directories(folder(500).string() + ".tmp-7.0");

  const auto structure = newest(options.folder, Depth::structure);
  CHECK(structure.path == folder(101));
  CHECK(structure.skipped.empty());
  const auto found = newest(options.folder, Depth::hashes);
  CHECK(found.path == folder(9));
  CHECK(found.step == 9);
  CHECK(holds(*found.path, 9));
  REQUIRE(found.skipped.size() == 3);
  CHECK(found.skipped[0].text() == cat(folder(101).string(), ": skipped: ",
                                       damaged_text(folder(101) / file, "model/experts[0:4, 0:2, 0:5, 0:3]")));
  CHECK_THAT(found.skipped[1].text(),
             Contains(folder(100).string() + ": skipped: ") && Contains("it has 100 bytes, the manifest says "));
  CHECK_THAT(found.skipped[2].text(), Contains(folder(10).string() + ": skipped: it holds no manifest.json"));
  on_ranks(3, [&](const auto& group) {
    const auto same = newest(options.folder, Depth::hashes, group.get());
    if (same.path != found.path || same.skipped.size() != 3) throw std::logic_error("ranks disagree");
  });
  flip_bit(folder(9) / file);
  CHECK_FALSE(newest(options.folder, Depth::hashes).path.has_value());
}

TEST_CASE("`latest` may point nowhere: it is never followed") {
  const Scratch scratch;
  WriterOptions options;
  options.folder = scratch / "checkpoints";
  save_step(options, 1);
  CHECK(read_file(options.folder / "latest") == "step-00000001\n");
  write_file(options.folder / "latest", "step-00000777\n");
  CHECK(newest(options.folder, Depth::hashes).path == step_folder(options.folder, 1));
}

// What is there and cannot be read is never taken for absent, nor for damaged.
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

}  // namespace checkpoint_search_test
