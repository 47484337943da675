#include <capstan/base/files.h>
#include <capstan/base/text.h>
#include <capstan_catch.h>

#include <random>

#include "checkpoint/faults.h"
#include "checkpoint/saving.h"
#include "checkpoint/scratch.h"
#include "record/manifest.h"

namespace checkpoint_reader_test {

using namespace capstan;
using namespace capstan::checkpoint;
using namespace saving;
using layout::Axis;
using layout::Box;
using layout::Mesh;

namespace {

namespace fs = std::filesystem;

void replace_in(const fs::path& path, const std::string& from, const std::string& to, bool seal = true) {
  auto text = read_file(path);
  const auto at = text.find(from);
  REQUIRE(at != std::string::npos);
  text.replace(at, from.size(), to);
  write_file(path, seal ? sealed(text) : text);
}

constexpr const char* copy_again = "\n    fix: copy the folder again, or take another checkpoint";

}  // namespace

TEST_CASE("any box is that slice of the whole") {
  std::mt19937 random(3);
  const auto draw = [&](std::int64_t low, std::int64_t high) {
    return std::uniform_int_distribution<std::int64_t>(low, high)(random);
  };
  const Scratch scratch;
  const auto all = records();
  save_at(scratch / "weights", all, Mesh({{Axis::dp, 2}, {Axis::ep, 2}}));
  Reader reader(scratch / "weights");
  for (const auto& [param, value] : all) {
    for (int round = 0; round < 30; ++round) {
      Box box = Box::whole(param.shape);
      for (std::size_t d = 0; d < param.shape.size(); ++d) {
        box.offset[d] = draw(0, param.shape[d]);
        box.size[d] = draw(0, param.shape[d] - box.offset[d]);
      }
      auto out = at::empty({box.numel()}, value.options());
      reader.read("model/" + param.name, box, out);
      REQUIRE(at::equal(out, slice(value, box).reshape(-1)));
    }
  }
}

TEST_CASE("a checkpoint gives back what its owners gave it") {
  const Scratch scratch;
  Meta meta;
  meta.step = 17;
  meta.sections = {{"cursor", R"({"epoch":2,"sample":9007199254740993})"}, {"scaler", "[65536.0,0.1,1e-05]"}};
  meta.config = "[train]\nseed = 7 # \"ä\"\n";
  meta.metrics = {{"eval_loss", 0.1}, {"diverged", std::numeric_limits<double>::quiet_NaN()}};
  meta.mesh = "world 3 = pp 1 x dp 3";  // as checkpoints named it once
  save_at(scratch / "weights/", records(), Mesh({{Axis::dp, 3}}), meta);
  CHECK(names_in(scratch.path()) == std::set<std::string>{"weights", "weights/manifest.json",
                                                          "weights/weights-00000-of-00003.safetensors",
                                                          "weights/weights-00001-of-00003.safetensors",
                                                          "weights/weights-00002-of-00003.safetensors"});
  const Reader reader(scratch / "weights");
  CHECK(reader.meta().step == 17);
  CHECK(reader.meta().sections == meta.sections);
  CHECK(reader.section("cursor") == meta.sections["cursor"]);
  CHECK(reader.has_section("scaler"));
  CHECK_FALSE(reader.has_section("schedule"));
  CHECK(reader.meta().config == meta.config);
  // JSON has no number for what is not one.
  CHECK(reader.meta().metrics == std::map<std::string, double>{{"eval_loss", 0.1}});
  CHECK(reader.meta().mesh == "world 3 = dp 3");
  CHECK(reader.meta().world_size == 3);
  CHECK(reader.meta().version == version());
  CHECK(reader.meta().date.size() == std::string("2026-11-21T00:10:00Z").size());
  CHECK(reader.tensors().size() == 6);
  CHECK(reader.tensors("model/w") == std::vector<std::string>{"model/wte.weight"});
  CHECK(reader.shape("model/experts") == layout::Shape{4, 2, 5, 3});
  CHECK(reader.dtype("model/experts") == Dtype::bf16);
  CHECK_FALSE(reader.has("model/lm_head"));
  const auto where = (scratch / "weights/manifest.json").string();
  CHECK(fault_of([&] { (void)reader.shape("model/lm_head"); }) == where + ": it has no tensor 'model/lm_head'");
  CHECK(fault_of([&] { (void)reader.section("schedule"); }) == where + ": it has no section 'schedule'");
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

}  // namespace checkpoint_reader_test
