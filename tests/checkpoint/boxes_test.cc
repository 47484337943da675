#include <capstan/base/files.h>
#include <capstan/base/text.h>
#include <capstan/checkpoint/boxes.h>
#include <capstan_catch.h>

#include <random>

#include "checkpoint/faults.h"
#include "checkpoint/scratch.h"

using namespace capstan;
using namespace capstan::checkpoint;
using layout::Axis;
using layout::Box;
using layout::Layout;
using layout::Mesh;
using layout::Param;
using layout::Shape;

namespace {

struct Record {
  Param param;
  at::Tensor value;
};

Record record(const std::string& name, const Shape& shape, c10::ScalarType dtype, Layout layout) {
  Record out;
  out.param.name = name;
  out.param.shape = shape;
  out.param.param.layout = std::move(layout);
  out.value = at::arange(layout::numel(shape), at::kDouble).view(shape).to(dtype).add_(0.5);
  return out;
}

at::Tensor slice(at::Tensor whole, const Box& box) {
  for (std::size_t d = 0; d < box.size.size(); ++d) {
    whole = whole.narrow(static_cast<std::int64_t>(d), box.offset[d], box.size[d]);
  }
  return whole;
}

// What each rank of the mesh would do, one after the other.
void save(const std::filesystem::path& folder, const std::vector<Record>& records, const Mesh& mesh) {
  begin_boxes(folder);
  std::vector<std::string> pieces;
  for (int rank = 0; rank < mesh.world_size(); ++rank) {
    std::vector<SavedBox> boxes;
    for (const auto& [param, value] : records) {
      if (!param.param.layout.counts(mesh, rank)) continue;
      for (const auto& box : param.param.layout.boxes(param.shape, mesh, rank)) {
        boxes.push_back({&param, box, slice(value, box)});
      }
    }
    pieces.push_back(save_boxes(folder, rank, mesh.world_size(), boxes));
  }
  finish_boxes(folder, pieces, {17});
}

std::vector<Record> records() {
  const Layout by_dp{{layout::Cut{0, {Axis::dp, Axis::ep}}}};
  const Layout by_tp{{layout::Cut{1, {Axis::tp}}}};
  std::vector<Record> out;
  out.push_back(record("wte.weight", {7, 6}, at::kFloat, by_tp.with({0, {Axis::dp, Axis::ep}})));
  out.push_back(record("ln.weight", {3}, at::kDouble, by_dp));
  out.push_back(record("experts", {4, 2, 5, 3}, at::kBFloat16, Layout{{layout::Cut{0, {Axis::ep}}, {2, {Axis::dp}}}}));
  out.push_back(record("scale", {}, at::kFloat, {}));
  return out;
}

std::vector<std::string> faults_of(const BoxesSource& source, const std::vector<const Param*>& params) {
  Diagnostics diagnostics;
  source.check(params, diagnostics);
  std::vector<std::string> out;
  for (const auto& diagnostic : diagnostics.list()) out.push_back(diagnostic.text());
  return out;
}

void replace_in(const std::filesystem::path& path, const std::string& from, const std::string& to) {
  auto text = read_file(path);
  const auto at = text.find(from);
  REQUIRE(at != std::string::npos);
  write_file(path, text.replace(at, from.size(), to));
}

}  // namespace

TEST_CASE("weights saved under one layout are any box of any other") {
  std::mt19937 random(3);
  const auto draw = [&](std::int64_t low, std::int64_t high) {
    return std::uniform_int_distribution<std::int64_t>(low, high)(random);
  };
  for (const Mesh& mesh : {Mesh(), Mesh({1, 3, 1, 1}), Mesh({1, 2, 2, 2}), Mesh({1, 1, 1, 4})}) {
    const Scratch scratch;
    const auto all = records();
    save(scratch / "weights", all, mesh);
    BoxesSource source(scratch / "weights");
    CHECK(source.info().step == 17);
    for (const auto& [param, value] : all) {
      REQUIRE(source.has(param));
      for (int round = 0; round < 20; ++round) {
        Box box = Box::whole(param.shape);
        for (std::size_t d = 0; round > 0 && d < param.shape.size(); ++d) {
          box.offset[d] = draw(0, param.shape[d]);
          box.size[d] = draw(0, param.shape[d] - box.offset[d]);
        }
        auto out = at::empty({box.numel()}, value.options());
        source.fill(param, box, out);
        REQUIRE(at::equal(out, slice(value, box).reshape(-1)));
      }
    }
  }
}

TEST_CASE("what is loaded is converted, into a leaf as well") {
  const Scratch scratch;
  const auto all = records();
  save(scratch / "weights", all, Mesh({1, 2, 1, 1}));
  BoxesSource source(scratch / "weights");
  auto leaf = at::zeros({7, 6}, at::kBFloat16).set_requires_grad(true);
  source.fill(all[0].param, Box::whole({7, 6}), leaf);
  CHECK(at::equal(leaf, all[0].value.to(at::kBFloat16)));
  CHECK(leaf.is_leaf());
}

TEST_CASE("the folder appears complete or not at all, and replaces an older one") {
  const Scratch scratch;
  const auto all = records();
  const Mesh mesh({1, 3, 1, 1});
  begin_boxes(scratch / "weights");
  write_file(scratch / "weights.tmp/left over", "x");
  CHECK_FALSE(std::filesystem::exists(scratch / "weights"));
  save(scratch / "weights", all, Mesh());
  save(scratch / "weights/", all, mesh);
  std::set<std::string> names;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(scratch.path())) {
    names.insert(std::filesystem::relative(entry.path(), scratch.path()));
  }
  CHECK(names == std::set<std::string>{"weights", "weights/manifest.json", "weights/weights-00000-of-00003.safetensors",
                                       "weights/weights-00001-of-00003.safetensors",
                                       "weights/weights-00002-of-00003.safetensors"});
  const auto manifest = read_file(scratch / "weights/manifest.json");
  CHECK_THAT(manifest, Catch::Contains("\"format\": \"capstan-boxes\",\n \"version\": 1,\n \"capstan\": \"" +
                                       version() + "\",\n \"step\": 17,\n \"world_size\": 3,"));
  CHECK_THAT(manifest, Catch::Contains("\"key\": \"wte.weight[3:6, 0:6]\""));
}

TEST_CASE("a rank without boxes writes no file") {
  const Scratch scratch;
  std::vector<Record> one;
  one.push_back(record("ln.weight", {1}, at::kFloat, Layout{{layout::Cut{0, {Axis::dp}}}}));
  save(scratch / "weights", one, Mesh({1, 2, 1, 1}));
  CHECK(std::filesystem::exists(scratch / "weights/weights-00000-of-00002.safetensors"));
  CHECK_FALSE(std::filesystem::exists(scratch / "weights/weights-00001-of-00002.safetensors"));
}

TEST_CASE("boxes that overlap or leave elements out are a bug, caught before the folder appears") {
  const Scratch scratch;
  const auto one = record("x", {4}, at::kFloat, {});
  const auto try_boxes = [&](const std::vector<Box>& boxes) {
    begin_boxes(scratch / "weights");
    std::vector<SavedBox> saved;
    for (const auto& box : boxes) saved.push_back({&one.param, box, slice(one.value, box)});
    const auto piece = save_boxes(scratch / "weights", 0, 1, saved);
    finish_boxes(scratch / "weights", {piece}, {});
  };
  CHECK_THROWS_AS(try_boxes({{{0}, {3}}}), std::logic_error);
  CHECK_THROWS_AS(try_boxes({{{0}, {2}}, {{1}, {2}}}), std::logic_error);
  CHECK_FALSE(std::filesystem::exists(scratch / "weights"));
  CHECK_NOTHROW(try_boxes({{{0}, {3}}, {{3}, {1}}}));
}

TEST_CASE("a model that does not match is refused record by record, missing files at once") {
  const Scratch scratch;
  const auto all = records();
  save(scratch / "weights", all, Mesh({1, 2, 1, 1}));
  std::filesystem::remove(scratch / "weights/weights-00001-of-00002.safetensors");
  BoxesSource source(scratch / "weights");
  const auto other = record("wte.weight", {8, 6}, at::kFloat, {});
  const auto unknown = record("wpe.weight", {8, 6}, at::kFloat, {});
  const auto where = (scratch / "weights/manifest.json").string() + ": ";
  const auto shape = where +
                     "record 'wte.weight' has shape [7, 6], the model's is [8, 6]\n    fix: load these weights into a "
                     "model of the sizes they were saved with";
  CHECK(faults_of(source, {&other.param, &unknown.param}) ==
        std::vector<std::string>{shape,
                                 where + "it has no record 'wpe.weight'\n    fix: load weights of the same model",
                                 where + "names 'weights-00001-of-00002.safetensors', which is not there\n    fix: "
                                         "copy the folder again, with all its files"});
  auto out = at::empty({8, 6});
  CHECK(fault_of([&] { source.fill(other.param, Box::whole({8, 6}), out); }) == shape);
  CHECK(fault_of([&] {
          source.fill(unknown.param, Box::whole({8, 6}), out);
        }) == where + "it has no record 'wpe.weight'");
  auto wte = at::empty({7, 6});
  CHECK(fault_of([&] {
          source.fill(all[0].param, Box::whole({7, 6}), wte);
        }) == (scratch / "weights/weights-00001-of-00002.safetensors").string() +
                  ": cannot open it: No such file or directory");
}

TEST_CASE("damaged data is found by its hash, when it is read and only there") {
  const Scratch scratch;
  const auto all = records();
  save(scratch / "weights", all, Mesh({1, 2, 1, 1}));
  const auto path = scratch / "weights/weights-00001-of-00002.safetensors";
  auto content = read_file(path);
  content[content.size() - 1] = static_cast<char>(content[content.size() - 1] ^ 1);  // bfloat16 stands last: experts
  write_file(path, content);
  BoxesSource source(scratch / "weights");
  auto wte = at::empty({7, 6});
  CHECK_NOTHROW(source.fill(all[0].param, Box::whole({7, 6}), wte));
  auto experts = at::empty({4, 2, 5, 3});
  CHECK_THAT(fault_of([&] {
               source.fill(all[2].param, Box::whole({4, 2, 5, 3}), experts);
             }),
             Catch::Contains(path.string() + ": the data of 'experts[0:4, 0:2, 3:5, 0:3]' has hash ") &&
                 Catch::Contains(", the manifest says ") &&
                 Catch::Contains("fix: it was damaged or changed: copy it again, or load other weights"));
}

TEST_CASE("files of two saves in one folder are told apart") {
  const Scratch scratch;
  save(scratch / "a", records(), Mesh({1, 2, 1, 1}));
  auto others = records();
  others[0].value = others[0].value.to(at::kDouble);
  save(scratch / "b", others, Mesh({1, 2, 1, 1}));
  const auto path = scratch / "a/weights-00001-of-00002.safetensors";
  std::filesystem::copy_file(scratch / "b/weights-00001-of-00002.safetensors", path,
                             std::filesystem::copy_options::overwrite_existing);
  BoxesSource source(scratch / "a");
  auto out = at::empty({7, 6});
  CHECK(fault_of([&] {
          source.fill(others[0].param, Box::whole({7, 6}), out);
        }) ==
        path.string() +
            ": 'wte.weight[4:7, 0:6]' is F64 [3, 6], the manifest says F32 [3, 6]\n    fix: the files are not of one "
            "save: copy the folder again");
}

TEST_CASE("what is no manifest is said so") {
  const Scratch scratch;
  CHECK(fault_of([&] { BoxesSource(scratch / "gone"); }) ==
        (scratch / "gone").string() +
            ": no such folder\n    fix: name a folder of weights that a run saved; one that ends in .tmp was never "
            "finished");
  CHECK_THAT(fault_of([&] { BoxesSource source(scratch.path()); }), Catch::Contains("it holds no manifest.json\n"));
  save(scratch / "weights", records(), Mesh());
  const auto path = scratch / "weights/manifest.json";
  const auto opening = [&] { return fault_of([&] { BoxesSource(scratch / "weights"); }); };
  SECTION("another format") {
    replace_in(path, "capstan-boxes", "boxes");
    CHECK(opening() == path.string() + ": its format is \"boxes\", not \"capstan-boxes\"");
  }
  SECTION("a later version") {
    replace_in(path, "\"version\": 1", "\"version\": 2");
    CHECK(opening() == path.string() +
                           ": its format has version 2, this program reads 1\n    fix: use the Capstan that "
                           "wrote it (" +
                           version() + ")");
  }
  SECTION("cut short") {
    write_file(path, read_file(path).substr(0, 100));
    CHECK_THAT(opening(), Catch::Contains(path.string() + ": no valid manifest: ") && Catch::Contains("line "));
  }
  SECTION("a key is missing") {
    replace_in(path, "\"xxh64\"", "\"hash\"");
    CHECK_THAT(opening(), Catch::Contains("no valid manifest: ") && Catch::Contains("key 'xxh64' not found"));
  }
  SECTION("an unknown dtype") {
    replace_in(path, "\"BF16\"", "\"F7\"");
    CHECK_THAT(opening(), Catch::Contains(": record 'experts' has dtype \"F7\", none of BOOL, U8, "));
  }
  SECTION("a box outside") {
    replace_in(path, "\"shape\": [\n    3\n   ]", "\"shape\": [\n    2\n   ]");
    CHECK(opening() == path.string() + ": record 'ln.weight' has shape [2], but a box [0:3]");
  }
  SECTION("boxes that are not all of it") {
    replace_in(path, "\"shape\": [\n    3\n   ]", "\"shape\": [\n    4\n   ]");
    CHECK(opening() == path.string() +
                           ": the boxes of record 'ln.weight' hold 3 elements, its shape [4] has 4\n    fix: copy the "
                           "folder again, with its own manifest");
  }
}

TEST_CASE("a folder that cannot be made is named") {
  const Scratch scratch;
  write_file(scratch / "file", "x");
  CHECK_THAT(fault_of([&] { begin_boxes(scratch / "file/weights"); }),
             Catch::Contains((scratch / "file/weights.tmp").string() + ": cannot make the folder for weights: "));
}
