#include "job/sections.h"

#include <capstan/testing.h>
#include <capstan_catch.h>

#include "job/resume.h"
#include "support/folder.h"
#include "support/job.h"
#include "testing/tiny.h"

namespace sections_test {

using namespace capstan;

namespace {

// 9 samples in batches of 4, in the run folder `FOLDER/a`.
job::Job job_in(const test::Folder& folder) {
  static plugin::Host host;
  static const bool once = (host.add(testing::tiny_model()), host.add(testing::tiny_data()), true);
  CHECK(once);
  setup::JobRequest request;
  request.file = folder.write("a.toml",
                              "[run]\nhost_memory = 1000\nname = \"a\"\n[model]\nplugin = \"tiny\"\n"
                              "[data]\nplugin = \"tiny\"\nsamples = 9\n[train]\nepochs = 3\nglobal_batch = 4\n");
  request.overrides = {"run.dir=" + folder.path().string()};
  return testing::job_of(request, host);
}

}  // namespace

TEST_CASE("the cursor counts samples from the epoch's beginning, an incomplete batch as what it has") {
  const test::Folder folder;
  const auto job = job_in(folder);
  const auto at = [&](std::int64_t steps) { return Json::parse(job::cursor_section(job, steps)); };
  CHECK(at(0).at("consumed_samples") == 0);
  CHECK(at(2).at("epoch") == 0);
  CHECK(at(2).at("samples_in_epoch") == 8);
  CHECK(at(3).at("epoch") == 1);
  CHECK(at(3).at("consumed_samples") == 9);
  CHECK(at(4).at("samples_in_epoch") == 4);
  CHECK(at(4).at("consumed_samples") == 13);
  CHECK(at(4).at("global_batch") == 4);
}

TEST_CASE("the first copy of a record has its plain name") {
  CHECK(job::saved_name("model", "wte", 0) == "model/wte");
  CHECK(job::saved_name("model", "wte", 2) == "copies/2/model/wte");
}

}  // namespace sections_test
