// What commands print of files.
#include <capstan/base/text.h>
#include <capstan_catch.h>

#include "end_to_end/program.h"

namespace printed_test {

using namespace end_to_end;
using capstan::cat;

TEST_CASE("what a file says moves no terminal's cursor, whichever command prints it") {
  const Workspace work;
  const std::string evil = R"("x\u001b[2J\u009b31m\u202e")";
  work.write("runs/a/config.toml", "[run]\n[train]\nmicro_batch = 4\n");
  work.write("runs/a/metrics.jsonl", R"({"step":0,"epoch":0,"loss":1.5,"lr":1,"samples":10,"step_time_s":2.0})"
                                     "\n");
  work.write("runs/a/summary.json", cat("{\"name\":", evil, ",\"world_size\":1}"));
  work.write("q.json",
             cat("{\"data\":[{\"paragraphs\":[{\"context\":\"It is \\u001b[31mred\\u202e.\",\"qas\":[{\"id\":", evil,
                 ",\"question\":\"What?\",\"answers\":[{\"text\":\"It\",\"answer_start\":0}]}]}]}]}"));
  const auto file = work.write("a.toml", small_config());
  for (const auto& command :
       std::vector<std::vector<std::string>>{{"top", "runs/a"},
                                             {"report", "runs/a"},
                                             {"report", "runs/a", "--format", "markdown"},
                                             {"report", "runs/a", "--format", "csv"},
                                             {"data", file, "data.train=q.json", "data.train_samples=1"}}) {
    INFO(capstan::join(command, " "));
    const auto ended = work.run(command);
    INFO(ended.all());
    CHECK(ended.code == 0);
    // NOLINTNEXTLINE(misc-misleading-bidirectional): it is what is tested
    CHECK_THAT(ended.out, !Contains("\033") && !Contains("\u009b") && !Contains("\u202e"));
  }
  CHECK_THAT(work.run({"data", file, "data.train=q.json", "data.train_samples=1"}).out,
             Contains("\\x1b[31mred\\u202e"));
}

}  // namespace printed_test
