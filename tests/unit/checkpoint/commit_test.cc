#include <capstan/base/files.h>
#include <capstan/base/text.h>
#include <capstan_catch.h>
#include <sys/wait.h>
#include <unistd.h>

#include <mutex>

#include "checkpoint/faults.h"
#include "checkpoint/saving.h"
#include "checkpoint/scratch.h"

namespace commit_test {

using namespace capstan;
using namespace capstan::checkpoint;
using namespace saving;
using layout::Axis;
using layout::Box;
using layout::Cut;
using layout::Layout;
using layout::Mesh;

namespace {

namespace fs = std::filesystem;

constexpr int crashed = 99;

int point_number(CommitPoint point) { return static_cast<int>(point); }

// Runs `body` in a process of its own, which ends there; returns its exit status.
template <class Body>
int in_child(const Body& body) {
  const auto child = ::fork();
  if (child == 0) {
    try {
      body();
    } catch (...) {
      ::_exit(1);
    }
    ::_exit(0);
  }
  int status = 0;
  ::waitpid(child, &status, 0);
  return WEXITSTATUS(status);
}

WriterOptions keep_one(const fs::path& folder) {
  WriterOptions options;
  options.folder = folder;
  options.keep.last = 1;
  return options;
}

// Two ranks save; the process ends at `point`.
int crash_at(int point, WriterOptions options, std::int64_t step, double first) {
  options.at_point = [point](int here) {
    if (here == point) ::_exit(crashed);
  };
  return in_child([&] {
    on_ranks(2, [&](const auto& group) {
      Writer writer(options, group);
      Meta meta;
      meta.step = step;
      writer.start(meta, boxes_of(records(first), Mesh({{Axis::dp, 2}}), group->rank()));
      writer.wait();
    });
  });
}

// Two ranks save step 20 after step 10 was committed; returns the Error that both must have thrown.
std::string fault_of_both(const WriterOptions& options, const std::function<void(int rank, int point)>& at_point,
                          bool is_bug = false) {
  std::mutex mutex;
  std::vector<std::string> faults;
  on_ranks(2, [&](const auto& group) {
    auto mine = options;
    mine.at_point = [&, rank = group->rank()](int point) { at_point(rank, point); };
    Writer writer(mine, group);
    Meta meta;
    meta.step = 20;
    writer.start(meta, boxes_of(records(20), Mesh({{Axis::dp, 2}}), group->rank()));
    std::string fault = "no error";
    try {
      writer.wait();
    } catch (const Error& error) {
      if (!is_bug) fault = error.what();
    } catch (const std::logic_error& error) {
      if (is_bug) fault = error.what();
    }
    const std::scoped_lock lock(mutex);
    faults.push_back(fault);
  });
  REQUIRE(faults.size() == 2);
  CHECK(faults[0] == faults[1]);
  return faults[0];
}

fs::path file_of(const fs::path& temporary, int rank) {
  return temporary / cat("weights-0000", rank, "-of-00002.safetensors");
}

}  // namespace

TEST_CASE("a crash at any point of a commit loses nothing that was committed") {
  for (int point = point_number(CommitPoint::begun); point <= point_number(CommitPoint::retention); ++point) {
    INFO("point " << point);
    const Scratch scratch;
    const auto options = keep_one(scratch / "checkpoints");
    save_step(options, 10, 10);
    const bool replaces = point == point_number(CommitPoint::aside);
    const int step = replaces ? 10 : 20;
    REQUIRE(crash_at(point, options, step, 20) == crashed);

    const bool is_new = point >= point_number(CommitPoint::renamed);
    const auto found = newest(options.folder, Depth::hashes);
    REQUIRE(found.path.has_value());
    CHECK(found.skipped.empty());
    CHECK(found.step == (is_new ? 20 : 10));
    CHECK(holds(*found.path, is_new ? 20 : 10));
    const bool is_named = point >= point_number(CommitPoint::latest);
    CHECK(read_file(options.folder / "latest") == (is_named ? "step-00000020\n" : "step-00000010\n"));

    // The next save removes what is left; with all kept, what was committed is still there.
    auto all = options;
    all.keep.last = 0;
    save_step(all, 30, 30);
    CHECK(newest(options.folder, Depth::hashes).step == 30);
    std::vector<std::string> left;
    for (const auto& path : committed(options.folder)) left.push_back(path.filename().string());
    std::vector<std::string> expected{"step-00000030"};
    if (is_new) expected.emplace_back("step-00000020");
    if (point != point_number(CommitPoint::retention)) expected.emplace_back("step-00000010");
    CHECK(left == expected);
    const auto names = names_in(options.folder);
    CHECK(std::none_of(names.begin(), names.end(), [](const auto& name) {
      return name.find(".tmp") != std::string::npos || name.find(".replaced") != std::string::npos;
    }));
  }
}

TEST_CASE("the points of a commit are met in their order") {
  const Scratch scratch;
  auto options = keep_one(scratch / "checkpoints");
  save_step(options, 10);
  std::vector<int> points;
  options.at_point = [&](int point) { points.push_back(point); };
  save_step(options, 20);
  CHECK(points == std::vector<int>{1, 2, 3, 4, 5, 7, 8, 9, 10});
  points.clear();
  save_step(options, 20);
  CHECK(points == std::vector<int>{1, 2, 3, 4, 5, 6, 7, 8, 9});
}

TEST_CASE("an error of one rank is the same error on all, and the checkpoint before stays") {
  const Scratch scratch;
  const auto options = keep_one(scratch / "checkpoints");
  save_step(options, 10, 10);
  const auto target = (options.folder / "step-00000020").string();
  for (const auto point :
       {CommitPoint::begun, CommitPoint::writing, CommitPoint::written, CommitPoint::agreed, CommitPoint::manifest}) {
    const int failing = point == CommitPoint::writing || point == CommitPoint::written ? 1 : 0;
    const auto fault = fault_of_both(options, [&](int rank, int here) {
      if (rank == failing && here == point_number(point)) throw Error("the disk is on fire", "call 112", "/scratch");
    });
    CHECK(fault ==
          cat("/scratch: the disk is on fire\n    fix: call 112\n    while saving ", target, " on rank ", failing));
    CHECK(names_in(options.folder) == std::set<std::string>{"latest", "step-00000010", "step-00000010/manifest.json",
                                                            "step-00000010/weights-00000-of-00001.safetensors"});
  }
  const auto both = fault_of_both(options, [&](int rank, int here) {
    if (here == point_number(CommitPoint::writing)) throw Error(cat("rank ", rank, " has a problem"));
  });
  CHECK(both == cat("rank 0 has a problem\n    while saving ", target, " on ranks 0, 1 (what rank 0 met is shown)"));
  const auto bug = fault_of_both(
      options,
      [&](int rank, int here) {
        if (rank == 1 && here == point_number(CommitPoint::written)) throw std::out_of_range("index 7");
      },
      /*is_bug=*/true);
  CHECK(bug == cat("index 7 while saving ", target, " on rank 1"));
  CHECK(fault_of_both(options, [](int, int) {}) == "no error");
  CHECK(holds(target, 20));
}

TEST_CASE("a disk that fills up is said in words, with what is needed where") {
  const Scratch scratch;
  const auto options = keep_one(scratch / "checkpoints");
  save_step(options, 10, 10);
  // Each write to /dev/full says ENOSPC: rank 1's file is a link to it.
  const auto temporary = options.folder / "step-00000020.tmp-0";
  const auto fault = fault_of_both(options, [&](int rank, int point) {
    if (rank != 1 || point != point_number(CommitPoint::writing)) return;
    fs::create_symlink("/dev/full", cat(file_of(temporary, 1).string(), ".tmp", ::getpid()));
  });
  CHECK_THAT(fault,
             Contains(file_of(temporary, 1).string() + ": cannot write it: no space is left on its file system (") &&
                 Contains(" free); this checkpoint needs 476 B in " + options.folder.string()) &&
                 Contains("\n    fix: free space there, keep fewer checkpoints, or write them elsewhere; the "
                          "ones committed before are whole\n    while saving ") &&
                 Contains(" on rank 1"));
  CHECK_FALSE(fs::exists(temporary));
  CHECK(newest(options.folder, Depth::hashes).step == 10);
}

TEST_CASE("a host that does not see the folder says so") {
  const Scratch scratch;
  auto options = keep_one(scratch / "checkpoints");
  options.at_point = [&](int point) {
    if (point == point_number(CommitPoint::writing)) fs::remove_all(scratch / "checkpoints");
  };
  CHECK(fault_of([&] { save_step(options, 1); }) ==
        cat(step_folder(options.folder, 1).string(),
            ".tmp-0: rank 0 has made this folder, but it cannot be seen from "
            "here\n    fix: save to a file system that all hosts share\n    while saving ",
            step_folder(options.folder, 1).string(), " on rank 0"));
}

TEST_CASE("rank 0's name for the attempt counts") {
  const Scratch scratch;
  std::set<std::string> seen;
  on_ranks(2, [&](const auto& group) {
    save(scratch / "weights", *group, {}, boxes_of(records(), Mesh({{Axis::dp, 2}}), group->rank()),
         group->rank() == 0 ? "4711.1" : "4711.0", [&, rank = group->rank()](int point) {
           if (rank == 0 && point == point_number(CommitPoint::agreed)) seen = names_in(scratch.path());
         });
  });
  CHECK(seen == std::set<std::string>{"weights.tmp-4711.1", "weights.tmp-4711.1/weights-00000-of-00002.safetensors",
                                      "weights.tmp-4711.1/weights-00001-of-00002.safetensors"});
}

TEST_CASE("a rank without elements writes no file") {
  const Scratch scratch;
  std::vector<Record> one;
  one.push_back(record("ln.weight", {1}, at::kFloat, Layout{{Cut{0, {Axis::dp}}}}));
  save_at(scratch / "weights", one, Mesh({{Axis::dp, 2}}));
  CHECK(std::filesystem::exists(scratch / "weights/weights-00000-of-00002.safetensors"));
  CHECK_FALSE(std::filesystem::exists(scratch / "weights/weights-00001-of-00002.safetensors"));
  auto whole = at::empty({1});
  Reader(scratch / "weights").read("model/ln.weight", Box::whole({1}), whole);
  CHECK(at::equal(whole, one[0].value));
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

}  // namespace commit_test
