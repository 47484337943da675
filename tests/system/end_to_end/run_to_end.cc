#include "run_to_end.h"

#include <capstan_catch.h>

namespace end_to_end {

Metrics run_to_end(const Workspace& work, const NamedRun& run) {
  std::vector<std::string> arguments{"run", work.write(run.name + ".toml", run.config), "run.name=" + run.name};
  if (run.ranks > 1) arguments.insert(arguments.end(), {"-n", std::to_string(run.ranks)});
  if (!run.from.empty()) arguments.push_back("checkpoint.resume=runs/" + run.from);
  arguments.insert(arguments.end(), run.overrides.begin(), run.overrides.end());
  const auto ran = work.run(arguments);
  INFO(ran.all());
  REQUIRE(ran.code == 0);
  CHECK(ran.err.empty());
  return read_metrics(work.folder() / "runs" / run.name);
}

}  // namespace end_to_end
