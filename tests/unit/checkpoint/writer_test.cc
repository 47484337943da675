#include <capstan/base/files.h>
#include <capstan/base/text.h>
#include <capstan_catch.h>

#include <atomic>
#include <future>
#include <thread>

#include "checkpoint/faults.h"
#include "checkpoint/saving.h"
#include "checkpoint/scratch.h"

namespace writer_test {

using namespace capstan;
using namespace capstan::checkpoint;
using namespace saving;
using layout::Axis;
using layout::Box;
using layout::Mesh;

namespace {

namespace fs = std::filesystem;

Meta at_step(std::int64_t step, const std::map<std::string, double>& metrics = {}) {
  Meta meta;
  meta.step = step;
  meta.metrics = metrics;
  return meta;
}

/// Holds a writer's thread where it begins to write, until it is let go.
struct Gate {
  std::promise<void> let_go;
  std::shared_future<void> open = let_go.get_future().share();
  AtPoint at_point() const {
    return [open = open](int point) {
      if (point == static_cast<int>(CommitPoint::writing)) open.wait();
    };
  }
};

}  // namespace

TEST_CASE("training continues while a checkpoint is written, and does not change it") {
  const Scratch scratch;
  Gate gate;
  WriterOptions options;
  options.folder = scratch / "checkpoints";
  options.at_point = gate.at_point();
  on_ranks(1, [&](const auto& group) {
    Writer writer(options, group);
    CHECK_FALSE(writer.busy());
    CHECK_FALSE(writer.wait().has_value());
    const auto all = records(3);
    const auto boxes = boxes_of(all, Mesh(), 0);
    writer.reserve(boxes);
    CHECK_FALSE(writer.start(at_step(5), boxes).has_value());
    for (const auto& one : all) one.value.zero_();
    CHECK(writer.busy());
    CHECK_FALSE(writer.poll().has_value());
    CHECK(committed(options.folder).empty());
    gate.let_go.set_value();
    const auto saved = writer.wait();
    REQUIRE(saved.has_value());
    CHECK(saved->path == step_folder(options.folder, 5));
    CHECK(saved->step == 5);
    CHECK(saved->bytes == 476);
    CHECK(saved->rank_bytes == 476);
    CHECK(saved->stall_s > 0);
    CHECK(saved->write_s > 0);
    CHECK(writer.last_duration_s() == saved->stall_s + saved->write_s);
    CHECK_FALSE(writer.wait().has_value());
    CHECK_FALSE(writer.poll().has_value());
  });
  CHECK(holds(step_folder(options.folder, 5), 3));
}

TEST_CASE("saves of host memory hold what was there before the update") {
  const Scratch scratch;
  WriterOptions options;
  options.folder = scratch / "checkpoints";
  on_ranks(1, [&](const auto& group) {
    Writer writer(options, group);
    auto all = records(0);
    auto boxes = boxes_of(all, Mesh(), 0);
    for (auto& box : boxes) box.until_update = true;
    for (int step = 1; step <= 5; ++step) {
      const auto next = records(step);
      for (std::size_t i = 0; i < all.size(); ++i) all[i].value.copy_(next[i].value);
      writer.start(at_step(step), boxes);
      writer.before_update();
      for (const auto& one : all) one.value.zero_();
    }
    writer.wait();
  });
  for (int step = 1; step <= 5; ++step) CHECK(holds(step_folder(options.folder, step), step));
}

TEST_CASE("one save is in flight: the next waits for it and tells how it went") {
  const Scratch scratch;
  std::atomic<int> under_way = 0;
  std::atomic<int> most = 0;
  WriterOptions options;
  options.folder = scratch / "checkpoints";
  options.at_point = [&](int point) {
    if (point == static_cast<int>(CommitPoint::begun)) most = std::max<int>(most, ++under_way);
    if (point == static_cast<int>(CommitPoint::latest)) --under_way;
  };
  on_ranks(3, [&](const auto& group) {
    Writer writer(options, group);
    const auto boxes = boxes_of(records(3), Mesh({{Axis::dp, 3}}), group->rank());
    for (std::int64_t step = 1; step <= 5; ++step) {
      const auto before = writer.start(at_step(step), boxes);
      if (before.has_value() != (step > 1)) throw std::logic_error("no word of the save before");
      if (before && before->step != step - 1) throw std::logic_error("another save");
    }
  });  // a writer that goes waits
  CHECK(most == 1);
  CHECK(steps_in(options.folder) == std::vector<std::int64_t>{5, 4, 3, 2, 1});
  CHECK(holds(step_folder(options.folder, 5), 3));
}

TEST_CASE("a synchronous save is committed when start returns") {
  const Scratch scratch;
  WriterOptions options;
  options.folder = scratch / "checkpoints";
  options.async = false;
  on_ranks(2, [&](const auto& group) {
    Writer writer(options, group);
    writer.start(at_step(5), boxes_of(records(3), Mesh({{Axis::dp, 2}}), group->rank()));
    if (writer.busy() || !fs::exists(step_folder(options.folder, 5))) throw std::logic_error("it is still busy");
    const auto saved = writer.poll();
    if (!saved || saved->stall_s < saved->write_s) throw std::logic_error("the stall is not all of it");
  });
  CHECK(holds(step_folder(options.folder, 5), 3));
}

TEST_CASE("the failure of a save is thrown by what comes next, and the save after it works") {
  const Scratch scratch;
  WriterOptions options;
  options.folder = scratch / "checkpoints";
  on_ranks(2, [&](const auto& group) {
    auto mine = options;
    auto fails = std::make_shared<std::atomic<bool>>(true);
    mine.at_point = [fails, rank = group->rank()](int point) {
      if (*fails && rank == 1 && point == static_cast<int>(CommitPoint::written)) throw Error("no luck");
    };
    const auto boxes = boxes_of(records(3), Mesh({{Axis::dp, 2}}), group->rank());
    const auto expected = cat("no luck\n    while saving ", step_folder(options.folder, 1).string(), " on rank 1");
    Writer writer(mine, group);
    writer.start(at_step(1), boxes);
    if (fault_of([&] { writer.start(at_step(2), boxes); }) != expected) throw std::logic_error("start says nothing");
    writer.start(at_step(1), boxes);
    while (writer.busy()) std::this_thread::yield();
    if (fault_of([&] { writer.poll(); }) != expected) throw std::logic_error("poll says nothing");
    *fails = false;
    writer.start(at_step(4), boxes);
    if (writer.wait()->step != 4) throw std::logic_error("another save");
  });
  CHECK(steps_in(options.folder) == std::vector<std::int64_t>{4});
}

TEST_CASE("host memory that is not there is said on all ranks") {
  const Scratch scratch;
  WriterOptions options;
  options.folder = scratch / "checkpoints";
  const std::int64_t many = std::int64_t{1} << 50;
  const TensorBox huge{"model/huge", {many}, Box::whole({many}), at::zeros({1}).expand({many})};
  on_ranks(2, [&](const auto& group) {
    Writer writer(options, group);
    std::vector<TensorBox> boxes;
    if (group->rank() == 1) boxes.push_back(huge);
    writer.start(at_step(1), boxes);
    const auto fault = fault_of([&] { writer.wait(); });
    const auto expected = "no 4.00 PiB of host memory for the copy of a checkpoint: ";
    if (!fault.starts_with(expected)) throw std::logic_error("another fault: " + fault);
    const auto fix =
        "\n    fix: set checkpoint.asynchronous = false, which needs no copy, or ask for more memory\n    while ";
    if (fault.find(fix) == std::string::npos) throw std::logic_error("no fix: " + fault);
  });
  CHECK(Writer::footprint(1000).bytes == 1000);
  CHECK(Writer::footprint(1000).part == "checkpoint copy");
}

}  // namespace writer_test
