#include "plugins/monitors/memory_snapshot/snapshot.h"

#include <capstan/base/files.h>
#include <capstan_catch.h>

#include <chrono>
#include <filesystem>
#include <fstream>
#include <stdexcept>
#include <thread>

#include "support/folder.h"

using namespace capstan;
using namespace memory_snapshot;
using monitor::Span;
namespace fs = std::filesystem;

namespace {

constexpr std::int64_t mib = std::int64_t{1} << 20;

struct Rank {
  test::Folder folder;
  Whole now{100 * mib, 150 * mib, 400 * mib};
  std::int64_t gathered = 10 * mib;
  int checks = 0;

  Watcher watcher(std::vector<std::int64_t> steps, bool gpu = true, bool on_request = false) {
    monitor::MemoryQuestions questions;
    questions.held = [this]() -> std::vector<monitor::MemoryPart> {
      return {{"parameters", false, 40 * mib},
              {"gathered units", false, gathered},
              {"offloaded optimizer state", true, 30 * mib}};
    };
    questions.predicted = [this]() -> std::vector<monitor::MemoryPart> {
      ++checks;
      return {{"parameters", false, 40 * mib},
              {"gathered units", false, 12 * mib},
              {"activations and gradients at work", false, 200 * mib},
              {"cuBLAS", false, 64 * mib},
              {"offloaded optimizer state", true, 30 * mib}};
    };
    questions.savings = []() -> std::vector<monitor::MemorySaving> {
      return {{"recompute every block", "strategy.recompute.every=1", 90 * mib},
              {"micro-batches of 1 instead of 4", "train.micro_batch=1", 120 * mib},
              {"shard everything", "strategy.fsdp.mode=full_shard", 130 * mib}};
    };
    return Watcher({folder.path(), 3, gpu, std::move(steps), on_request, questions, [this] { return now; }});
  }
};

// A step of one unit, whose backward holds most.
void step(Watcher& watcher, Rank& rank, const std::string& number) {
  watcher.begin(Span::step, number);
  watcher.begin(Span::forward, "blocks.0");
  rank.now.used = 300 * mib;
  rank.gathered = 11 * mib;
  watcher.begin(Span::backward, "blocks.0");
  rank.now.used = 100 * mib;
  rank.gathered = 0;
  watcher.end(Span::backward, "blocks.0");
  watcher.end(Span::step, number);
}

// Cells of the row that begins with this part.
std::string row(const std::string& text, const std::string& part) {
  const auto at = text.find("\n" + part);
  if (at == std::string::npos) return "none";
  return text.substr(at + 1, text.find('\n', at + 1) - at - 1);
}

}  // namespace

TEST_CASE("a chosen step: the parts at its largest moment, against the prediction, and what would save most") {
  Rank rank;
  auto watcher = rank.watcher({1});
  step(watcher, rank, "0");
  CHECK(watcher.take_written().empty());
  step(watcher, rank, "1");
  const auto files = watcher.take_written();
  REQUIRE(files.size() == 1);
  CHECK(files[0] == rank.folder.path() / "memory_snapshots/rank-3-step-1.txt");
  const auto text = read_file(files[0]);
  INFO(text);
  CHECK_THAT(text,
             Contains("memory of rank 3 in step 1 when it was largest: at the beginning of backward of blocks.0"));
  CHECK_THAT(row(text, "parameters "), Contains("40.00 MiB") && !Contains("-"));
  CHECK_THAT(row(text, "gathered units"), Contains("11.00 MiB") && Contains("12.00 MiB"));
  CHECK_THAT(row(text, "activations"), Contains("249.00 MiB") && Contains("264.00 MiB"));  // 300 - 40 - 11
  CHECK_THAT(row(text, "all tensors"), Contains("300.00 MiB") && Contains("316.00 MiB"));
  CHECK_THAT(row(text, "most of it"), Contains("400.00 MiB") && Contains("316.00 MiB"));
  CHECK_THAT(row(text, "host: offloaded optimizer state"), Contains("30.00 MiB"));
  CHECK_THAT(text,
             Contains("recompute every block") && Contains("train.micro_batch=1") && !Contains("shard everything"));
  step(watcher, rank, "2");
  CHECK(watcher.take_written().empty());
  CHECK(rank.checks == 1);
}

TEST_CASE("a touched file asks for one snapshot, each time that it is touched") {
  Rank rank;
  rank.folder.write("take_memory_snapshot", "of an earlier start");
  auto watcher = rank.watcher({}, true, true);
  step(watcher, rank, "0");
  CHECK(watcher.take_written().empty());
  for (const std::string number : {"1", "2"}) {
    std::this_thread::sleep_for(Request::between);
    fs::last_write_time(rank.folder.path() / "take_memory_snapshot",
                        fs::file_time_type::clock::now() + std::chrono::hours(number == "1" ? 1 : 2));
    step(watcher, rank, number);
    CHECK(watcher.take_written().size() == 1);
    CHECK(fs::exists(rank.folder.path() / ("memory_snapshots/rank-3-step-" + number + ".txt")));
  }
  std::this_thread::sleep_for(Request::between);
  step(watcher, rank, "3");
  CHECK(watcher.take_written().empty());
}

TEST_CASE("memory that runs out: the parts, where, and the error; also on a rank that writes nothing else") {
  Rank rank;
  auto watcher = rank.watcher({});
  watcher.begin(Span::step, "7");
  rank.now.used = 350 * mib;
  watcher.begin(Span::forward, "blocks.2");
  rank.now.used = 90 * mib;  // as after the failed call is unwound
  const auto [file, text] = watcher.out_of_memory("CUDA out of memory. Tried to allocate 2 GiB\nmore lines");
  INFO(text);
  CHECK(file.filename() == "rank-3-out-of-memory.txt");
  CHECK(read_file(file) == text);
  CHECK_THAT(text, Contains("which has run out in step 7: at the beginning of forward of blocks.2") &&
                       Contains("recompute every block") && Contains("Tried to allocate 2 GiB\n") &&
                       !Contains("more lines"));
  CHECK_THAT(row(text, "all tensors"), Contains("350.00 MiB"));
}

TEST_CASE("a CPU rank: tensors' bytes, and the rest of the process") {
  Rank rank;
  auto watcher = rank.watcher({0}, false);
  step(watcher, rank, "0");
  const auto text = read_file(watcher.take_written().at(0));
  INFO(text);
  CHECK_THAT(row(text, "activations, code"), Contains("219.00 MiB"));  // 300 - 40 - 11 - 30
  CHECK_THAT(row(text, "the process"), Contains("300.00 MiB"));
  CHECK_THAT(row(text, "most of it so far"), Contains("400.00 MiB"));
  CHECK_THAT(text, Contains("peak on a GPU") && !Contains("allocator"));
}

TEST_CASE("a prediction that cannot be made is no reason to write nothing") {
  test::Folder folder;
  monitor::MemoryQuestions questions;
  questions.predicted = []() -> std::vector<monitor::MemoryPart> { throw std::runtime_error("no shape rule"); };
  Watcher watcher({folder.path(), 0, true, {0}, false, questions, [] { return Whole{mib, mib, mib}; }});
  Rank unused;
  step(watcher, unused, "0");
  CHECK_THAT(read_file(watcher.take_written().at(0)), Contains("no prediction: no shape rule"));
}
