#include <capstan/base/files.h>
#include <capstan/base/text.h>
#include <capstan_catch.h>

#include "checkpoint/faults.h"
#include "checkpoint/saving.h"
#include "checkpoint/scratch.h"
#include "record/manifest.h"
#include "support/disk_mark.h"

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

void replace_in(const fs::path& path, const std::string& from, const std::string& to, bool seal = true) {
  auto text = read_file(path);
  const auto at = text.find(from);
  REQUIRE(at != std::string::npos);
  text.replace(at, from.size(), to);
  write_file(path, seal ? sealed(text) : text);
}

constexpr const char* copy_fix = "\n    fix: copy the folder again, with all its files, or take another checkpoint";
constexpr const char* damaged_fix = "\n    fix: copy the file again, or take another checkpoint";

std::string damaged_text(const fs::path& file, const std::string& key) {
  return cat(file.string(), ": the data of '", key, "' is damaged: it does not have the hash that the manifest says",
             damaged_fix);
}

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

TEST_CASE("a reader of a part hashes no more than the pieces that hold it") {
  const Scratch scratch;
  std::vector<Record> one;
  one.push_back(record("wide", {3, hashed_bytes / 4}, at::kFloat, {}));
  save_at(scratch / "weights", one, Mesh());
  flip_bit(scratch / "weights/weights-00000-of-00001.safetensors");  // in row 2
  Reader reader(scratch / "weights");
  auto out = at::empty({2, hashed_bytes / 4});
  reader.read("model/wide", {{0, 0}, {2, hashed_bytes / 4}}, out);
  CHECK(at::equal(out, one[0].value.narrow(0, 0, 2)));
  auto last = at::empty({1});
  CHECK_THAT(fault_of([&] {
               reader.read("model/wide", {{2, 0}, {1, 1}}, last);
             }),
             Contains(cat("the data of 'model/wide[0:3, 0:", hashed_bytes / 4, "]' is damaged")));
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

const std::string copy_again = "\n    fix: copy the folder again, or take another checkpoint";

TEST_CASE("what is no manifest is said so") {
  const Scratch scratch;
  CHECK(fault_of([&] { Reader reader(scratch / "gone"); }) ==
        (scratch / "gone").string() +
            ": no such folder\n    fix: name the folder of a checkpoint; one with .tmp in its name was never finished");
  CHECK_THAT(fault_of([&] { Reader reader(scratch.path()); }), Contains("it holds no manifest.json\n"));
  save_at(scratch / "weights", records(), Mesh());
  const auto path = scratch / "weights/manifest.json";
  const auto opening = [&] { return fault_of([&] { Reader reader(scratch / "weights"); }); };
  SECTION("another format") {
    replace_in(path, "capstan-checkpoint", "boxes");
    CHECK(opening() == path.string() + R"(: its format is "boxes", not "capstan-checkpoint")" + copy_again);
  }
  SECTION("a later version") {
    replace_in(path, "\"version\": 1", "\"version\": 2");
    CHECK(opening() == path.string() +
                           ": its format has version 2, this program reads 1: a newer Capstan has written it (" +
                           version() + ")\n    fix: use that Capstan, or name another checkpoint");
  }
  SECTION("cut short") {
    write_file(path, read_file(path).substr(0, 100));
    CHECK_THAT(opening(), Contains(path.string() + ": no valid manifest: ") && Contains("line "));
  }
  SECTION("changed") {
    replace_in(path, "\"step\": 0", "\"step\": 7", /*seal=*/false);
    CHECK(opening() == path.string() +
                           ": it is not what was written: its last line has the hash of another text\n    fix: copy "
                           "the folder again, or take another checkpoint");
  }
  SECTION("a key is missing") {
    replace_in(path, "\"world_size\"", "\"size\"");
    CHECK_THAT(opening(), Contains("no valid manifest: ") && Contains("key 'world_size' not found"));
  }
}

TEST_CASE("a manifest that contradicts itself is refused, though its hash is right") {
  const Scratch scratch;
  save_at(scratch / "weights", records(), Mesh());
  const auto path = scratch / "weights/manifest.json";
  const auto opening = [&] { return fault_of([&] { Reader reader(scratch / "weights"); }); };
  SECTION("an unknown dtype") {
    replace_in(path, "\"BF16\"", "\"F7\"");
    CHECK_THAT(opening(), Contains(": tensor 'model/experts' has dtype \"F7\", none of BOOL, U8, "));
  }
  SECTION("a box outside") {
    replace_in(path, "\"shape\":[3]", "\"shape\":[2]");
    CHECK(opening() ==
          path.string() + ": tensor 'model/ln.weight' has shape [2], but a box of [3] at [0]" + copy_again);
  }
  SECTION("a box whose end no number holds") {
    replace_in(path, "\"offset\":[0],", "\"offset\":[9223372036854775807],");
    CHECK_THAT(opening(), Contains(", but a box of [") && Contains("] at [9223372036854775807]"));
  }
  SECTION("a shape whose size no number holds") {
    replace_in(path, "\"shape\":[3]", "\"shape\":[4611686018427387904,4]");
    CHECK_THAT(opening(), Contains("has shape [4611686018427387904, 4], more than any file holds"));
  }
  SECTION("a shape that is none") {
    replace_in(path, "\"shape\":[3]", "\"shape\":[-3]");
    CHECK(opening() == path.string() + ": tensor 'model/ln.weight' has shape [-3]" + copy_again);
  }
  SECTION("boxes that are not all of it") {
    replace_in(path, "\"shape\":[3]", "\"shape\":[4]");
    CHECK(opening() == path.string() +
                           ": the boxes of tensor 'model/ln.weight' hold 3 elements, its shape [4] has 4\n    fix: "
                           "copy the folder again, or take another checkpoint");
  }
  SECTION("a file that is not listed") {
    replace_in(path, "\"weights-00000-of-00001.safetensors\": ", "\"weights.safetensors\": ");
    CHECK(opening() == path.string() +
                           ": tensor 'model/experts' lies in 'weights-00000-of-00001.safetensors', which is none of "
                           "its files\n    fix: copy the folder again, or take another checkpoint");
  }
  SECTION("hashes are missing") {
    const auto text = read_file(path);
    const auto at = text.find("\"xxh64\":[\"");
    replace_in(path, text.substr(at, 28), "\"xxh64\":[]");
    CHECK_THAT(opening(), Contains(path.string() + ": box [0:4, 0:2, 0:5, 0:3] of tensor 'model/experts' has 0 "
                                                   "hashes instead of 1"));
  }
}

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
