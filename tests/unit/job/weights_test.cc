#include "job/weights.h"

#include <ATen/ATen.h>
#include <capstan/base/error.h>
#include <capstan/checkpoint/safetensors.h>
#include <capstan/comm/communicator.h>
#include <capstan_catch.h>

#include "checkpoint/checkpoint.h"
#include "job/resume.h"
#include "support/errors.h"
#include "support/folder.h"

namespace weights_test {

using namespace capstan;

namespace {

namespace fs = std::filesystem;

void save_boxes(const fs::path& folder, double value) {
  comm::run_in_process(1, [&](comm::Communicator& communicator) {
    const auto group = communicator.group("all", {0}, c10::Device(c10::kCPU));
    checkpoint::save(folder, *group, {}, {{"model/w", {2}, layout::Box::whole({2}), at::full({2}, value)}});
  });
}

void save_model(const fs::path& folder, double value) {
  fs::create_directories(folder);
  checkpoint::write_safetensors(folder / "model.safetensors", {{"w", at::full({2}, value)}});
}

layout::Param param(const std::string& name, const layout::Shape& shape) {
  layout::Param param;
  param.name = name;
  param.shape = shape;
  return param;
}

double value_in(layout::Source& source) {
  auto out = at::zeros({2});
  source.fill(param("w", {2}), layout::Box::whole({2}), out);
  return out[0].item<double>();
}

layout::FileMap names() {
  layout::FileMap map;
  map.tensors["w"] = {"w", false, {}, {}, {}};
  map.tensors["v"] = {"v", false, {}, {}, {}};
  return map;
}

}  // namespace

TEST_CASE("a run's weights are its final ones, else its model's, else those of its newest checkpoint") {
  const test::Folder folder;
  const auto run = folder / "run";
  const auto saved = job::checkpoint_folder(run);
  fs::create_directories(saved);
  for (const int step : {3, 12}) save_boxes(checkpoint::step_folder(saved, step), step);
  CHECK(job::find_weights(run) == checkpoint::step_folder(saved, 12));
  save_model(run / "model", 20);
  CHECK(job::find_weights(run) == run / "model");
  save_boxes(run / "weights", 30);
  CHECK(job::find_weights(run) == run / "weights");
  // A folder that is named itself is meant.
  CHECK(job::find_weights(run / "model") == run / "model");
  CHECK(job::find_weights(checkpoint::step_folder(saved, 3)) == checkpoint::step_folder(saved, 3));
}

TEST_CASE("a folder that has no weights is told from one that is not there") {
  const test::Folder folder;
  for (const auto& [path, what] :
       {std::pair{folder.path(), "this folder holds no weights"}, {folder / "gone", "there is no such folder"}}) {
    try {
      (void)job::find_weights(path);
      FAIL("found weights in " << path);
    } catch (const Error& error) {
      const auto& fault = error.diagnostics().front();
      CHECK(fault.what == what);
      CHECK(fault.where == path.string());
      CHECK_FALSE(fault.fix.empty());
    }
  }
}

TEST_CASE("weights are opened from boxes and from a model's files, and lack all records at once") {
  const test::Folder folder;
  save_boxes(folder / "boxes", 3);
  save_model(folder / "model", 4);
  const auto w = param("w", {2}), v = param("v", {2}), other = param("w", {3});
  CHECK(value_in(*job::open_weights(folder / "boxes", names(), {&w})) == 3);
  CHECK(value_in(*job::open_weights(folder / "model", names(), {&w})) == 4);
  for (const char* kind : {"boxes", "model"}) {
    INFO(kind);
    const auto said = test::error_of([&] { (void)job::open_weights(folder / kind, names(), {&v, &other}); });
    CHECK_THAT(said, Contains("v") && Contains("[2]") && Contains("[3]"));
  }
  save_boxes(folder / "run/weights", 5);
  CHECK(value_in(*job::open_boxes(folder / "run")) == 5);
  CHECK(value_in(*job::open_boxes(folder / "boxes")) == 3);
}

}  // namespace weights_test
