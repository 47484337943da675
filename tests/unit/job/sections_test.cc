#include "job/sections.h"

#include <capstan/testing.h>
#include <capstan_catch.h>

#include "job/resume.h"
#include "support/folder.h"
#include "support/tiny_job.h"

namespace sections_test {

using namespace capstan;

TEST_CASE("the cursor counts samples from the epoch's beginning, an incomplete batch as what it has") {
  const test::Folder folder;
  const auto job = testing::tiny_job(folder);
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
