#include "plugins/monitors/trace/recorder.h"

#include <capstan/base/files.h>
#include <capstan/base/json.h>
#include <capstan_catch.h>

#include <chrono>
#include <set>
#include <thread>

#include "support/folder.h"

using namespace trace;
using capstan::monitor::Span;

namespace {

void make_step(Recorder& recorder, const std::string& number) {
  recorder.begin(Span::step, number);
  recorder.begin(Span::forward, "blocks.0");
  recorder.begin(Span::collective, "all-gather 'fsdp blocks.1'");
  std::this_thread::sleep_for(std::chrono::milliseconds(3));  // the profiler drops what is shorter than its clock sees
  recorder.end(Span::collective, "all-gather 'fsdp blocks.1'");
  recorder.end(Span::forward, "blocks.0");
  recorder.begin(Span::optimizer, "update");
  recorder.end(Span::optimizer, "update");
  recorder.end(Span::step, number);
}

std::set<std::string> spans_of(const std::filesystem::path& file) {
  std::set<std::string> names;
  const auto trace = capstan::Json::parse(capstan::read_file(file));
  for (const auto& event : trace.at("traceEvents")) {
    if (event.value("cat", "") == "user_annotation") names.insert(event.at("name").get<std::string>());
  }
  return names;
}

}  // namespace

TEST_CASE("only chosen steps are recorded, and those that follow one another share a file") {
  const test::Folder folder;
  Recorder recorder({{1, 2, 5}}, folder / "traces", "rank-0", -1);
  for (int step = 0; step < 7; ++step) make_step(recorder, std::to_string(step));
  recorder.finish();
  REQUIRE(recorder.files().size() == 2);
  CHECK(recorder.files()[0] == folder / "traces" / "rank-0-step-1.json");
  CHECK(spans_of(recorder.files()[0]) ==
        std::set<std::string>{"step 1", "step 2", "forward blocks.0", "all-gather 'fsdp blocks.1'", "optimizer"});
  CHECK(spans_of(recorder.files()[1]) ==
        std::set<std::string>{"step 5", "forward blocks.0", "all-gather 'fsdp blocks.1'", "optimizer"});
}

TEST_CASE("an evaluation ends what is recorded, and so does the run") {
  const test::Folder folder;
  Recorder recorder({{0, 1}}, folder / "traces", "rank-3", -1);
  make_step(recorder, "0");
  recorder.begin(Span::evaluation, "evaluation");
  recorder.end(Span::evaluation, "evaluation");
  CHECK(recorder.files().size() == 1);
  make_step(recorder, "1");
  CHECK(recorder.files().size() == 1);
  recorder.finish();
  CHECK(recorder.files().at(1) == folder / "traces" / "rank-3-step-1.json");
}

TEST_CASE("a folder that cannot be made ends the recording, not the run") {
  const test::Folder folder;
  folder.write("file", "");
  Recorder recorder({{0, 1}}, folder / "file" / "traces", "rank-0", -1);
  make_step(recorder, "0");
  make_step(recorder, "1");
  recorder.finish();
  CHECK(recorder.files().empty());
}

TEST_CASE("units are followed unless they are not asked for: CUDA graphs may then run") {
  const test::Folder folder;
  CHECK(Recorder({{0}}, folder / "traces", "rank-0", -1).units());
  CHECK_FALSE(Recorder({{0}, {0}, false}, folder / "traces", "rank-0", -1).units());
}

TEST_CASE("a trace that cannot be written is an error") {
  const test::Folder folder;
  std::filesystem::create_directories(folder / "traces" / "rank-0-step-1.json" / "in the way");
  Recorder recorder({{1}}, folder / "traces", "rank-0", -1);
  make_step(recorder, "1");
  CHECK_THROWS_WITH(recorder.finish(), Contains("rank-0-step-1.json: the trace could not be written"));
  CHECK(recorder.files().empty());
}
