#include <capstan/base/files.h>
#include <capstan/base/text.h>
#include <capstan_catch.h>

#include "checkpoint/faults.h"
#include "checkpoint/saving.h"
#include "checkpoint/scratch.h"

namespace commit_folder_test {

using namespace capstan;
using namespace capstan::checkpoint;
using namespace saving;
using layout::Axis;
using layout::Box;
using layout::Mesh;

namespace {

namespace fs = std::filesystem;

}  // namespace

TEST_CASE("a folder that cannot be made is named") {
  const Scratch scratch;
  write_file(scratch / "file", "x");
  CHECK_THAT(fault_of([&] { save_at(scratch / "file/weights", records(), Mesh()); }),
             Contains((scratch / "file/weights.tmp-0").string() + ": cannot make it: Not a directory") &&
                 Contains("while saving " + (scratch / "file/weights").string() + " on rank 0"));
}

TEST_CASE("a folder of weights replaces an older one, and what an attempt left next to it goes") {
  const Scratch scratch;
  save_at(scratch / "weights", records(), Mesh());
  scratch.write("weights.tmp-4711.0/left over", "x");
  scratch.write("weights.replaced/left over", "x");
  scratch.write("mine.tmp-4711.0/not ours", "x");
  save_at(scratch / "weights/", records(7), Mesh({{Axis::dp, 2}}));
  CHECK(holds(scratch / "weights", 7));
  CHECK(names_in(scratch.path()) == std::set<std::string>{"mine.tmp-4711.0", "mine.tmp-4711.0/not ours", "weights",
                                                          "weights/manifest.json",
                                                          "weights/weights-00000-of-00002.safetensors",
                                                          "weights/weights-00001-of-00002.safetensors"});
}

TEST_CASE("a checkpoint that surely has no room is refused before anything is written") {
  const Scratch scratch;
  WriterOptions options;
  options.folder = scratch / "checkpoints";
  options.async = false;
  const std::int64_t many = std::int64_t{1} << 50;
  const TensorBox huge{"model/huge", {many}, Box::whole({many}), at::zeros({1}).expand({many})};
  const auto fault = fault_of([&] {
    on_ranks(1, [&](const auto& group) {
      Writer writer(options, group);
      writer.start({}, {huge});
    });
  });
  CHECK_THAT(fault, Contains((options.folder / "step-00000000.tmp-0").string() + ": its file system has ") &&
                        Contains(" free; this checkpoint needs 4.00 PiB in " + options.folder.string()));
  CHECK(names_in(scratch.path()) == std::set<std::string>{"checkpoints"});
}

TEST_CASE("as many of the last are kept as is asked for, and the best") {
  const Scratch scratch;
  WriterOptions options;
  options.folder = scratch / "checkpoints";
  const auto save_all = [&] {
    save_step(options, 1, 0.5, {{"loss", 3}});
    save_step(options, 2, 0.5, {{"loss", 1}});
    save_step(options, 3, 0.5, {{"loss", 4}});
    save_step(options, 4, 0.5, {{"loss", 1}});
    save_step(options, 5);
    save_step(options, 6, 0.5, {{"loss", 2}});
  };
  SECTION("all") {
    save_all();
    CHECK(steps_in(options.folder) == std::vector<std::int64_t>{6, 5, 4, 3, 2, 1});
  }
  SECTION("the last two") {
    options.keep.last = 2;
    save_all();
    CHECK(steps_in(options.folder) == std::vector<std::int64_t>{6, 5});
  }
  SECTION("the last and the lowest; the earliest where several are equal") {
    options.keep.last = 1;
    options.keep.best.metric = "loss";
    save_all();
    CHECK(steps_in(options.folder) == std::vector<std::int64_t>{6, 2});
  }
  SECTION("the last and the highest") {
    options.keep.last = 1;
    options.keep.best = {"loss", false};
    save_all();
    CHECK(steps_in(options.folder) == std::vector<std::int64_t>{6, 3});
  }
}

TEST_CASE("the best by another metric takes the place of the old best when there is one, not before") {
  const Scratch scratch;
  WriterOptions options;
  options.folder = scratch / "checkpoints";
  options.keep.last = 1;
  const auto after = [&](std::int64_t step, const std::map<std::string, double>& metrics) {
    save_step(options, step, 0.5, metrics);
    return steps_in(options.folder);
  };
  using Steps = std::vector<std::int64_t>;
  CHECK(after(1, {{"loss", 1}}) == Steps{1});  // without a best one
  options.keep.best.metric = "loss";
  CHECK(after(2, {{"loss", 2}}) == Steps{2, 1});
  CHECK(after(3, {}) == Steps{3, 1});
  options.keep.best = {"f1", false};
  CHECK(after(4, {}) == Steps{4, 1});
  CHECK(after(5, {{"loss", 3}, {"f1", 10}}) == Steps{5});
  CHECK(after(6, {{"loss", 4}, {"f1", 5}}) == Steps{6, 5});
  options.keep.best.lowest = true;
  CHECK(after(7, {{"loss", 5}, {"f1", 7}}) == Steps{7, 6});
  options.keep.best = {"loss"};  // the first one
  CHECK(after(8, {}) == Steps{8, 6});
  options.keep.best = {};
  CHECK(after(9, {}) == Steps{9});
}

TEST_CASE("only whole checkpoints count as kept") {
  const Scratch scratch;
  WriterOptions options;
  options.folder = scratch / "checkpoints";
  for (const int step : {1, 2, 3}) save_step(options, step);
  fs::resize_file(step_folder(options.folder, 3) / "weights-00000-of-00001.safetensors", 10);
  options.keep.last = 2;
  save_step(options, 4);
  CHECK(steps_in(options.folder) == std::vector<std::int64_t>{4, 3, 2});
}

TEST_CASE("the one just written stays, even after newer ones of another history") {
  const Scratch scratch;
  WriterOptions options;
  options.folder = scratch / "checkpoints";
  options.keep.last = 1;
  save_step(options, 100);
  save_step(options, 50);
  CHECK(steps_in(options.folder) == std::vector<std::int64_t>{100, 50});
}

TEST_CASE("retention removes nothing while it cannot see all") {
  const Scratch scratch;
  WriterOptions options;
  options.folder = scratch / "checkpoints";
  for (const int number : {1, 2}) save_step(options, number);
  const auto manifest = step_folder(scratch / "checkpoints", 1) / "manifest.json";
  const auto text = read_file(manifest);
  fs::remove(manifest);
  fs::create_symlink("/proc/self/mem", manifest);
  options.keep.last = 2;
  for (const int number : {3, 4}) save_step(options, number);
  CHECK(fs::exists(step_folder(scratch / "checkpoints", 1)));
  CHECK_FALSE(fs::exists(step_folder(scratch / "checkpoints", 2)));
  fs::remove(manifest);
  write_file(manifest, text);
  CHECK(newest(scratch / "checkpoints", Depth::hashes).step == 4);
}

}  // namespace commit_folder_test
