#include "ranks/stopping.h"

#include <capstan/base/exit_code.h>
#include <capstan/base/files.h>
#include <capstan/base/text.h>
#include <capstan/comm/communicator.h>
#include <capstan_catch.h>

#include <chrono>
#include <csignal>
#include <cstdlib>
#include <filesystem>

#include "support/folder.h"
#include "train/run.h"

namespace stopping_test {

using namespace capstan;

namespace {

double seconds_until(step::Stop::Clock::time_point when) {
  return std::chrono::duration<double>(when - step::Stop::Clock::now()).count();
}

std::string epoch_in(int seconds) {
  const auto now = std::chrono::system_clock::now() + std::chrono::seconds(seconds);
  return std::to_string(std::chrono::duration_cast<std::chrono::seconds>(now.time_since_epoch()).count());
}

// Three ranks; the last one got `signal`, if any.
std::vector<ranks::Ending> endings(const train::RunEnd& run, int signal) {
  std::vector<ranks::Ending> out(3);
  comm::run_in_process(3, [&](comm::Communicator& communicator) {
    const auto rank = static_cast<std::size_t>(communicator.world().rank);
    step::Stop stop;
    if (signal != 0 && rank == 2) stop.ask(signal);
    out[rank] = ranks::end_stopped(run, stop, communicator);
  });
  return out;
}

}  // namespace

TEST_CASE("what squeue says is left") {
  CHECK(ranks::seconds_left("59\n") == 59.0);
  CHECK(ranks::seconds_left("3:04") == 184.0);
  CHECK(ranks::seconds_left("02:03:04") == 7384.0);
  CHECK(ranks::seconds_left("1-02:03:04") == 93784.0);
  for (const char* other : {"UNLIMITED", "NOT_SET", "INVALID", "", "1:2:3:4", "a-00:10", "-5:00"}) {
    INFO(other);
    CHECK_FALSE(ranks::seconds_left(other));
  }
}

TEST_CASE("a job's end comes from SLURM_JOB_END_TIME; outside of a job there is none") {
  const auto end =
      ranks::job_deadline(launch::environment({{"SLURM_JOB_ID", "7"}, {"SLURM_JOB_END_TIME", epoch_in(500)}}));
  REQUIRE(end);
  CHECK(seconds_until(*end) > 400);
  CHECK(seconds_until(*end) < 501);
  CHECK_FALSE(ranks::job_deadline(launch::environment({{"SLURM_JOB_END_TIME", epoch_in(500)}})));
  // SLURM's "unlimited" is a year or more, or an end that no clock has.
  CHECK_FALSE(
      ranks::job_deadline(launch::environment({{"SLURM_JOB_ID", "7"}, {"SLURM_JOB_END_TIME", "99999999999999"}})));
}

TEST_CASE("where SLURM does not say when a job ends, squeue does, if it answers") {
  const auto job = launch::environment({{"SLURM_JOB_ID", "7"}});
  const test::Folder folder;
  const std::string path = std::getenv("PATH");
  setenv("PATH", cat(folder.path().string(), ":", path).c_str(), 1);
  const auto squeue = folder / "squeue";
  const auto deadline_where = [&](const std::string& script) {
    write_file(squeue, cat("#!/bin/sh\n", script, "\n"));
    std::filesystem::permissions(squeue, std::filesystem::perms::owner_all);
    return ranks::job_deadline(job);
  };
  const auto end = deadline_where("[ \"$*\" = '--noheader --jobs 7 --format %L' ] && echo 3:20");
  REQUIRE(end);
  CHECK(seconds_until(*end) > 150);
  CHECK(seconds_until(*end) < 201);
  CHECK_FALSE(deadline_where("echo UNLIMITED"));
  CHECK_FALSE(deadline_where("echo 3:20; exit 1"));
  CHECK_FALSE(deadline_where("echo 3:20; exec sleep 100"));
  setenv("PATH", path.c_str(), 1);
}

TEST_CASE("all ranks end alike, whichever got the signal") {
  train::RunEnd run{{}, "after step 12", true, 85};
  for (const auto& ending : endings(run, SIGUSR1)) {
    CHECK(ending.exit_code == 85);
    CHECK(ending.message == "capstan: stopped by SIGUSR1 after step 12; exit code 85 asks to be queued again\n");
  }
  for (const auto& ending : endings(run, 0)) {
    CHECK(ending.exit_code == 85);
    CHECK_THAT(ending.message, Contains("stopped since the job's time is nearly over after step 12"));
  }
  for (const auto& ending : endings(run, SIGINT)) {
    CHECK(ending.exit_code == static_cast<int>(ExitCode::interrupted));
    CHECK(ending.message ==
          "capstan: stopped by SIGINT after step 12; exit code 130; checkpoint.resume=auto continues from its newest "
          "checkpoint\n");
    CHECK(ending.by_person);
  }
  run.resumable = false;
  for (const auto& ending : endings(run, SIGTERM)) {
    CHECK(ending.exit_code == static_cast<int>(ExitCode::interrupted));
    CHECK(ending.message ==
          "capstan: stopped by SIGTERM after step 12; a later run starts from the beginning ([checkpoint] every_steps "
          "would let it continue)\n");
  }
}

TEST_CASE("a requeue exit code of 0 is said as what it is") {
  for (const auto& ending : endings({{}, "after step 12", true, 0}, SIGTERM)) {
    CHECK(ending.exit_code == 0);
    CHECK(ending.message ==
          "capstan: stopped by SIGTERM after step 12; checkpoint.resume=auto continues from its newest checkpoint\n");
  }
}

}  // namespace stopping_test
