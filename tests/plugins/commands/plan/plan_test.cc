// `plan` end to end: what it writes is a configuration that `check` accepts for these GPUs.
#include "plugins/commands/plan/plan.h"

#include <capstan/base/files.h>
#include <capstan/base/text.h>
#include <capstan/plugin/host.h>
#include <capstan_catch.h>

#include "ranks/check_command.h"
#include "support/errors.h"
#include "support/folder.h"

namespace plan_test {

using namespace capstan;

namespace {

std::string config_file(const test::Folder& folder) {
  return folder.write("configs/a.toml",
                      "[run]\nhost_memory = 1000\n[model]\nplugin = \"gpt\"\nvocab_size = 50000\nhidden_size = "
                      "1024\nnum_layers = 4\nnum_heads = 16\nseq_length = 512\nattention_dropout = 0.0\n[data]\nplugin "
                      "= \"synthetic\"\n[train]\nmax_steps = 1\nmicro_batch = 2\nglobal_batch = 16\nprecision = "
                      "\"bf16\"\n[strategy.recompute]\nenabled = false\n");
}

int planned(const planning::PlanArguments& arguments) {
  plugin::Host host;
  return planning::plan(arguments, {"plan", "", {}, launch::environment({}), host});
}

}  // namespace

TEST_CASE("plan writes a configuration that fits, of the same global batch") {
  const test::Folder folder;
  const auto none = launch::environment({});
  const auto file = config_file(folder);
  const auto written = (folder / "best.toml").string();
  planning::PlanArguments arguments{file, {"optimizer.lr=3e-4"}, 4, 1, "h200-141g", 0, written};
  CHECK(planned(arguments) == 0);
  const auto text = read_file(written);
  CHECK_THAT(text, Contains("extends = \"configs/a.toml\"") && Contains("global_batch = 16") && Contains("lr = 3e-04"));
  CHECK(ranks::check_command({written, {}, 4, {}, "h200-141g"}, none) == 0);
  // A GPU of unknown speed that is just large enough for a part.
  arguments.gpu = "4GiB";
  CHECK(planned(arguments) == 0);
  CHECK(ranks::check_command({written, {}, 4, {}, "4GiB"}, none) == 0);
}

TEST_CASE("plan says when nothing fits, and refuses what cannot be") {
  const test::Folder folder;
  const auto file = config_file(folder);
  CHECK(planned({file, {"model.hidden_size=8192"}, 1, 1, "3GiB"}) == 2);
  CHECK_THROWS_WITH(planned({file, {}, 4, 3, "h100-80g"}), Contains("4 GPUs do not spread evenly"));
  CHECK_THROWS_WITH(planned({file, {}, 4, 1, "h100-80g", 0, file}), Contains("--write names the configuration itself"));
  CHECK_THROWS_WITH(planned({file, {"model.num_head=3"}, 4, 1, "h100-80g"}), Contains("num_head"));
  CHECK_THROWS_WITH(planned({file, {}, 3, 1, "h100-80g"}),
                    Contains("global_batch 16 is not a multiple of micro_batch 2 x data-parallel size 3"));
}

}  // namespace plan_test
