#include <capstan_catch.h>

#include "checkpoint/faults.h"
#include "checkpoint/saving.h"
#include "checkpoint/scratch.h"

namespace checkpoint_source_test {

using namespace capstan;
using namespace capstan::checkpoint;
using namespace saving;
using layout::Axis;
using layout::Box;
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

}  // namespace checkpoint_source_test
