// What a job tells people of itself.
#include <capstan/testing.h>
#include <capstan_catch.h>

#include <memory>

#include "job/job.h"
#include "predict/dry_job.h"
#include "support/folder.h"
#include "support/job.h"
#include "testing/tiny.h"

namespace tables_test {

using namespace capstan;

namespace {

job::Job job_on(const test::Folder& folder, int ranks, int ranks_per_node) {
  static plugin::Host host;
  static const bool once = (host.add(testing::tiny_model()), host.add(testing::tiny_data()), true);
  CHECK(once);
  setup::JobRequest request;
  request.file = folder.write("a.toml",
                              "[run]\nhost_memory = 1000\n[model]\nplugin = \"tiny\"\n[data]\nplugin = \"tiny\"\n"
                              "samples = 9\n[train]\nmax_steps = 1\nglobal_batch = 4\n");
  request.world_size = ranks;
  request.ranks_per_node = ranks_per_node;
  return testing::job_of(request, host);
}

}  // namespace

TEST_CASE("the ranks' summary has the nodes, where there is more than one rank, and the batch's arithmetic") {
  const test::Folder folder;
  CHECK_THAT(job_on(folder, 4, 2).ranks_summary(),
             Contains("\n4 ranks on 2 nodes, 2 on each\n") &&
                 Contains("global batch 4 = micro-batch 1 x accumulation 1 x data-parallel size 4\n"));
  CHECK_THAT(job_on(folder, 2, 2).ranks_summary(), Contains("\n2 ranks on 1 node\n"));
  CHECK_THAT(job_on(folder, 1, 1).ranks_summary(), !Contains("node"));
}

TEST_CASE("a brief summary leaves out what one node and data parallelism alone need not say") {
  const test::Folder folder;
  const auto job = job_on(folder, 2, 2);
  CHECK(job.ranks_summary(true) == "global batch 4 = micro-batch 2 x accumulation 1 x data-parallel size 2\n");
  CHECK_THAT(job_on(folder, 4, 2).ranks_summary(true), Catch::Matchers::StartsWith("4 ranks on 2 nodes, 2 on each\n"));
  CHECK_THAT(job.model_summary(), Contains("floating-point operations a token"));
  CHECK_THAT(job.model_summary(true), Contains("model tiny: ") && !Contains("floating-point"));
}

TEST_CASE("what a strategy says of many layers is one line of a brief summary") {
  const test::Folder folder;
  auto job = job_on(folder, 1, 1);
  const auto model = std::make_shared<job::AssembledModel>();
  model->built = job.model->built;
  model->changes = "Adding lora to: a\nAdding lora to: b\nAdding lora to: c\nwith strategies: 1\nno colon\nno colon\n";
  job.model = model;
  CHECK_THAT(job.model_summary(true),
             Contains("\nAdding lora to: a and 2 more\nwith strategies: 1\nno colon\nno colon\n"));
  CHECK_THAT(job.model_summary(), Contains("\nAdding lora to: b\n"));
}

TEST_CASE("a GPU's layers of attention that no fused kernel computes are in the summary, with what kernels lack") {
  const auto on = [](const std::string& model, const std::string& device) {
    return testing::job_of(testing::small(model, device == "cpu" ? "fp32" : "bf16", ""), device).model_summary(true);
  };
  const auto dropping = testing::llama + "attention_dropout = 0.1\n";
  CHECK_THAT(on(dropping, "cuda"),
             Contains("\nattention: plain (dropout on probabilities: no faster row has it) in 2 layers\n"));
  CHECK_THAT(on(dropping, "cpu"), !Contains("attention:"));
  for (const auto& model : {testing::llama, testing::bloom, testing::mistral + "16\n", testing::mixtral})
    CHECK_THAT(on(model, "cuda"), !Contains("attention:"));
}

TEST_CASE("a job's tables have the batch's sizes as they were settled") {
  const test::Folder folder;
  const auto job = job_on(folder, 4, 4);
  int found = 0;
  for (const auto& table : job.tables()) {
    if (table.path != "train") continue;
    for (const auto& option : table.options) {
      if (option.spec.key != "micro_batch" && option.spec.key != "accumulation") continue;
      ++found;
      CHECK(config::value_text(option.value) == "1");
    }
  }
  CHECK(found == 2);
}

}  // namespace tables_test
