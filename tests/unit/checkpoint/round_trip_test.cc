#include <capstan/base/files.h>
#include <capstan/base/text.h>
#include <capstan_catch.h>

#include <random>

#include "checkpoint/faults.h"
#include "checkpoint/saving.h"
#include "checkpoint/scratch.h"

using namespace capstan;
using namespace capstan::checkpoint;
using namespace saving;
using layout::Axis;
using layout::Box;
using layout::Cut;
using layout::Layout;
using layout::Mesh;

namespace {

// Every rank of `mesh` reads its boxes of these records, as it would on loading.
bool each_rank_reads_its_boxes(const std::filesystem::path& path, const std::vector<Record>& records,
                               const Mesh& mesh) {
  bool equal = true;
  for (int rank = 0; rank < mesh.world_size(); ++rank) {
    Reader reader(path);
    RecordSource source(reader);
    for (const auto& [param, value] : records) {
      const auto box = param.param.layout.box(param.shape, mesh, rank);
      auto out = at::empty({box.numel()}, value.options());
      source.fill(param, box, out);
      equal = equal && at::equal(out, slice(value, box).reshape(-1));
    }
  }
  return equal;
}

}  // namespace

TEST_CASE("a checkpoint saved under one layout is read under any other") {
  const std::vector<Mesh> meshes{Mesh(),
                                 Mesh({{Axis::dp, 2}}),
                                 Mesh({{Axis::dp, 3}}),
                                 Mesh({{Axis::dp, 4}}),
                                 Mesh({{Axis::tp, 2}}),
                                 Mesh({{Axis::dp, 2}, {Axis::tp, 2}}),
                                 Mesh({{Axis::ep, 2}, {Axis::tp, 2}})};
  for (const auto& saved : meshes) {
    const Scratch scratch;
    save_at(scratch / "weights", records(), saved);
    for (const auto& loaded : meshes) {
      REQUIRE(each_rank_reads_its_boxes(scratch / "weights", records(), loaded));
      REQUIRE(each_rank_reads_its_boxes(scratch / "weights", records_cut_otherwise(), loaded));
    }
  }
}

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

TEST_CASE("what is read is converted, into a leaf as well") {
  const Scratch scratch;
  const auto all = records();
  save_at(scratch / "weights", all, Mesh({{Axis::dp, 2}}));
  Reader reader(scratch / "weights");
  RecordSource source(reader);
  auto leaf = at::zeros({7, 6}, at::kBFloat16).set_requires_grad(true);
  source.fill(all[0].param, Box::whole({7, 6}), leaf);
  CHECK(at::equal(leaf, all[0].value.to(at::kBFloat16)));
  CHECK(leaf.is_leaf());
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

TEST_CASE("a rank without elements writes no file") {
  const Scratch scratch;
  std::vector<Record> one;
  one.push_back(record("ln.weight", {1}, at::kFloat, Layout{{Cut{0, {Axis::dp}}}}));
  save_at(scratch / "weights", one, Mesh({{Axis::dp, 2}}));
  CHECK(std::filesystem::exists(scratch / "weights/weights-00000-of-00002.safetensors"));
  CHECK_FALSE(std::filesystem::exists(scratch / "weights/weights-00001-of-00002.safetensors"));
  CHECK(each_rank_reads_its_boxes(scratch / "weights", one, Mesh()));
}

TEST_CASE("boxes that overlap or leave elements out are a bug on all ranks, and nothing is committed") {
  const Scratch scratch;
  const auto one = record("x", {4}, at::kFloat, {});
  const auto attempt = [&](const std::vector<Box>& boxes) {
    on_ranks(2, [&](const auto& group) {
      std::vector<TensorBox> saved;
      if (group->rank() == 0) {
        for (const auto& box : boxes) saved.push_back({"model/x", {4}, box, slice(one.value, box)});
      }
      save(scratch / "weights", *group, {}, saved);
    });
  };
  CHECK_THROWS_AS(attempt({{{0}, {3}}}), std::logic_error);
  CHECK_THROWS_AS(attempt({{{0}, {2}}, {{1}, {2}}}), std::logic_error);
  CHECK(names_in(scratch.path()).empty());
  CHECK_NOTHROW(attempt({{{0}, {3}}, {{3}, {1}}}));
}

TEST_CASE("a model that does not match is refused record by record") {
  const Scratch scratch;
  const auto all = records();
  save_at(scratch / "weights", all, Mesh({{Axis::dp, 2}}));
  Reader reader(scratch / "weights");
  RecordSource source(reader);
  const auto other = record("wte.weight", {8, 6}, at::kFloat, {});
  const auto unknown = record("wpe.weight", {8, 6}, at::kFloat, {});
  const auto where = (scratch / "weights").string() + ": ";
  const auto shape = where +
                     "record 'wte.weight' has shape [7, 6], the model's is [8, 6]\n    fix: load it into a model of "
                     "the sizes it was saved with";
  const auto missing = where + "it has no record 'wpe.weight'\n    fix: load a checkpoint of the same model";
  Diagnostics faults;
  source.check({&all[0].param, &other.param, &unknown.param}, faults);
  REQUIRE(faults.size() == 2);
  CHECK(faults.list()[0].text() == shape);
  CHECK(faults.list()[1].text() == missing);
  CHECK(source.has(all[0].param));
  CHECK_FALSE(source.has(unknown.param));
  auto out = at::empty({8, 6});
  CHECK(fault_of([&] { source.fill(other.param, Box::whole({8, 6}), out); }) == shape);
  CHECK(fault_of([&] { source.fill(unknown.param, Box::whole({8, 6}), out); }) == missing);
}
