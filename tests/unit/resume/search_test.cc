#include "resume/search.h"

#include <ATen/ATen.h>
#include <capstan/base/error.h>
#include <capstan/testing.h>
#include <capstan_catch.h>

#include "job/assemble.h"
#include "resume/check.h"
#include "support/folder.h"
#include "support/tiny_job.h"

namespace search_test {

using namespace capstan;

namespace {

namespace fs = std::filesystem;

job::Job job_in(const test::Folder& folder, const std::string& resume = "none") {
  auto job = testing::tiny_job(folder);
  job.config.checkpoint.derive(&setup::CheckpointOptions::resume, resume);
  return job;
}

void save(const fs::path& folder) {
  comm::run_in_process(1, [&](comm::Communicator& communicator) {
    const auto group = communicator.group("all", {0}, c10::Device(c10::kCPU));
    checkpoint::save(folder, *group, {}, {{"model/w", {2}, layout::Box::whole({2}), at::ones({2})}});
  });
}

// Saves the run in this folder after these steps; the newest checkpoint lacks its weights.
void save_steps(const fs::path& run, const std::vector<int>& steps) {
  const auto folder = job::checkpoint_folder(run);
  fs::create_directories(folder);
  for (const int step : steps) save(checkpoint::step_folder(folder, step));
  fs::remove(checkpoint::step_folder(folder, steps.back()) / "weights-00000-of-00001.safetensors");
}

job::Resume resume_of(const test::Folder& folder, const std::string& from) {
  return resume::find_resume(job_in(folder, from), checkpoint::Depth::structure, nullptr);
}

std::vector<Diagnostic> refusal(const test::Folder& folder, const std::string& from) {
  try {
    (void)resume_of(folder, from);
  } catch (const Error& error) {
    return error.diagnostics();
  }
  return {};
}

}  // namespace

TEST_CASE("a run continues from the newest whole checkpoint of its own folder, and damaged newer ones step aside") {
  const test::Folder folder;
  CHECK_FALSE(resume_of(folder, "auto").reader);
  save_steps(folder / "a", {3, 20, 100});
  const auto checkpoints = job::checkpoint_folder(folder / "a");
  CHECK_FALSE(resume_of(folder, "none").reader);
  const auto resume = resume_of(folder, "auto");
  REQUIRE(resume.reader);
  CHECK(resume.reader->path() == checkpoint::step_folder(checkpoints, 20));
  CHECK(resume.skipped.size() == 1);
  CHECK(resume.newer == std::vector<fs::path>{checkpoint::step_folder(checkpoints, 100)});
}

TEST_CASE("another run's newest whole checkpoint is taken, and what is newer there stays where it is") {
  const test::Folder folder;
  save_steps(folder / "other", {3, 20, 100});
  const auto checkpoints = job::checkpoint_folder(folder / "other");
  for (const auto& from : {folder / "other", checkpoints}) {
    const auto resume = resume_of(folder, from.string());
    REQUIRE(resume.reader);
    CHECK(resume.reader->path() == checkpoint::step_folder(checkpoints, 20));
    CHECK(resume.skipped.size() == 1);
    CHECK(resume.newer.empty());
  }
  const auto third = checkpoint::step_folder(checkpoints, 3);
  CHECK(resume_of(folder, third.string()).reader->path() == third);
}

TEST_CASE("a checkpoint that is named is that one or none, also without its manifest") {
  const test::Folder folder;
  save_steps(folder / "other", {3, 20});
  const auto damaged = checkpoint::step_folder(job::checkpoint_folder(folder / "other"), 20);
  for (const bool has_manifest : {true, false}) {
    if (!has_manifest) fs::remove(damaged / "manifest.json");
    const auto faults = refusal(folder, damaged.string());
    REQUIRE(faults.size() == 2);
    CHECK_THAT(faults[0].what, Contains(damaged.string() + " is not valid"));
    CHECK_THAT(faults[0].fix, Contains("the folder that it lies in"));
  }
}

TEST_CASE("a place without a checkpoint is refused with what may have been meant") {
  const test::Folder folder;
  save_steps(folder / "baseline", {3, 20});
  const auto missing = refusal(folder, (folder / "baselin").string());
  REQUIRE(missing.size() == 1);
  CHECK_THAT(missing[0].what, Contains("there is no " + (folder / "baselin").string()));
  CHECK_THAT(missing[0].fix, Contains("did you mean '" + (folder / "baseline").string() + "'?"));
  const auto keyword = refusal(folder, (folder / "Auto").string());
  REQUIRE(keyword.size() == 1);
  CHECK_THAT(keyword[0].fix, Contains("did you mean 'auto'?"));
  fs::create_directories(folder / "empty");
  const auto empty = refusal(folder, (folder / "empty").string());
  REQUIRE(empty.size() == 1);
  CHECK_THAT(empty[0].what, Contains("has no valid checkpoint"));
  CHECK_THAT(empty[0].fix, !Contains("did you mean"));
}

TEST_CASE("weights are no checkpoint to resume from, and records that one side lacks are named") {
  const test::Folder folder;
  const auto job = job_in(folder);
  save(folder / "weights");
  const checkpoint::Reader reader(folder / "weights");
  Diagnostics faults;
  resume::check_resume(job, reader, job::pointers(job.model->units), faults);
  const std::string text = Error(faults.list()).what();
  CHECK_THAT(text, Contains("it holds weights without the optimizer's state") && Contains("it has no record '") &&
                       Contains("it has the record 'w', which the model has not"));
}

}  // namespace search_test
