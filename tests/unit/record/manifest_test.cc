#include "record/manifest.h"

#include <capstan_catch.h>

#include <limits>
#include <stdexcept>

#include "record/saved.h"

namespace manifest_test {

using namespace capstan;
using namespace capstan::checkpoint;

namespace {

Manifest read(const std::string& text) {
  const test::Folder folder;
  return parse_manifest(folder.write("manifest.json", text));
}

Manifest complete() {
  auto out = saved::manifest();
  out.contents.files = {{"a.safetensors", 10}, {"b.safetensors", 11}};
  return out;
}

std::string replaced(std::string text, const std::string& from, const std::string& to) {
  const auto at = text.find(from);
  REQUIRE(at != std::string::npos);
  return sealed(text.replace(at, from.size(), to));
}

}  // namespace

TEST_CASE("a manifest is read back as it was written, but for metrics that JSON has no numbers for") {
  auto written = complete();
  written.meta.config = "[train]\nlr = 1\n";
  written.meta.metrics = {{"eval_loss", 2.5}, {"loss", std::numeric_limits<double>::quiet_NaN()}};
  const auto back = read(manifest_text(written));
  CHECK((back.meta.step == 7 && back.meta.world_size == 2 && back.meta.mesh == "dp 2"));
  CHECK(back.meta.config == written.meta.config);
  CHECK(back.meta.sections == written.meta.sections);
  CHECK(back.meta.metrics == std::map<std::string, double>{{"eval_loss", 2.5}});
  CHECK(back.contents.files == written.contents.files);
  CHECK(piece_text(back.contents) == piece_text(written.contents));
}

TEST_CASE("the mesh of an earlier version loses the axis that never had more than one part") {
  const auto text = replaced(manifest_text(complete()), "\"dp 2\"", "\"dp 2 x pp 1 x tp 1\"");
  CHECK(read(text).meta.mesh == "dp 2 x tp 1");
}

TEST_CASE("a manifest of another version is told from a damaged one by its seal") {
  const auto text = manifest_text(complete());
  CHECK_THROWS_AS(read(replaced(text, "\"version\": 1", "\"version\": 2")), OtherVersion);
  auto damaged = text;
  damaged.replace(damaged.find("\"version\": 1"), 12, "\"version\": 2");
  try {
    read(damaged);
    FAIL("it was changed");
  } catch (const OtherVersion&) {
    FAIL("it is of no other version");
  } catch (const Error& error) {
    CHECK_FALSE(error.diagnostics().front().fix.empty());
  }
  CHECK(sealed(damaged) != damaged);
  CHECK(sealed(sealed(damaged)) == sealed(damaged));
}

TEST_CASE("ranks' pieces become one, and an element that two ranks have, or none, is a bug") {
  const auto whole = complete().contents;
  const auto piece = [&](const char* file, std::vector<BoxEntry> boxes) {
    Contents out;
    out.files[file] = whole.files.at(file);
    out.tensors["model/w"] = whole.tensors.at("model/w");
    out.tensors["model/w"].boxes = std::move(boxes);
    return piece_text(out);
  };
  const auto boxes = whole.tensors.at("model/w").boxes;
  const auto first = piece("a.safetensors", {boxes[0]});
  CHECK(piece_text(merge_pieces({first, piece("b.safetensors", {boxes[1]})})) == piece_text(whole));
  CHECK_THROWS_AS(merge_pieces({first}), std::logic_error);
  auto overlapping = boxes[1];
  overlapping.box = {{2}, {3}};
  CHECK_THROWS_AS(merge_pieces({first, piece("b.safetensors", {overlapping})}), std::logic_error);
}

}  // namespace manifest_test
