// How a job that SLURM starts again finds the runs that it began.
#include "ranks/restart.h"

#include <capstan/base/files.h>
#include <capstan_catch.h>

#include "support/folder.h"

namespace restart_test {

using namespace capstan;

namespace {

namespace fs = std::filesystem;
using Words = std::vector<std::string>;

// Runs of the name x that save checkpoints.
struct Runs {
  test::Folder folder;
  fs::path dir = folder.path() / "runs";
  setup::RunOptions run;
  setup::CheckpointOptions checkpoint;

  explicit Runs(const std::vector<const char*>& names) {
    for (const char* name : names) fs::create_directories(dir / name);
    run.dir = dir.string();
    run.name = "x";
    checkpoint.every_steps = 10;
  }
  Words found(const launch::Environment& env, const launch::RunArguments& command) const {
    return ranks::find_restarted(env, run, checkpoint, command);
  }
};

// A step of job 4711, at its first start or after this number of restarts.
launch::Environment step(const char* number, const char* restarts = "0") {
  return launch::environment({{"SLURM_JOB_ID", "4711"}, {"SLURM_STEP_ID", number}, {"SLURM_RESTART_COUNT", restarts}});
}

launch::RunArguments with(Words overrides, const std::string& config = "configs/x.toml") {
  launch::RunArguments arguments;
  arguments.config = config;
  arguments.overrides = std::move(overrides);
  return arguments;
}

Words goes_on(const std::string& name) { return {"run.name=\"" + name + "\"", "checkpoint.resume=auto"}; }

}  // namespace

TEST_CASE("a job that SLURM starts again finds the run that it began") {
  Runs runs({"x", "x-2", "x-3"});
  const auto command = with({});
  ranks::note_job(launch::environment({{"SLURM_JOB_ID", "4000"}, {"SLURM_STEP_ID", "0"}}), command, runs.dir / "x");
  ranks::note_job(step("0"), command, runs.dir / "x-2");
  ranks::note_job(launch::environment({}), command, runs.dir / "x-3");

  CHECK(runs.found(step("0", "1"), command) == goes_on("x-2"));
  runs.run.name.reset();
  CHECK(runs.found(step("0", "1"), command) == goes_on("x-2"));
  // Not on a first start, not another job's, not without checkpoints, not a run that never began.
  CHECK(runs.found(step("0"), command).empty());
  const auto other = launch::environment({{"SLURM_JOB_ID", "1"}, {"SLURM_STEP_ID", "0"}, {"SLURM_RESTART_COUNT", "1"}});
  CHECK(runs.found(other, command).empty());
  CHECK(ranks::find_restarted(step("0", "1"), runs.run, {}, command).empty());
  runs.run.name = "y";
  CHECK(runs.found(step("0", "1"), command).empty());

  // A checkpoint of another run, by name, is what it starts from until it has one of its own.
  runs.run.name = "x";
  runs.checkpoint.resume = "/somewhere/else";
  CHECK(runs.found(step("0", "1"), command).empty());
  fs::create_directories(runs.dir / "x-2/checkpoints/step-00000010.tmp-4711.0");
  CHECK(runs.found(step("0", "1"), command).empty());
  fs::create_directories(runs.dir / "x-2/checkpoints/step-00000010");
  CHECK(runs.found(step("0", "1"), command) == goes_on("x-2"));
}

TEST_CASE("each command of a job's script finds its own run") {
  Runs runs({"x", "x-2", "x-3"});
  const auto low = with({"optimizer.lr=1e-2", "train.max_steps=30"});
  const auto high = with({"optimizer.lr=2e-2", "train.max_steps=30"});
  ranks::note_job(step("0"), low, runs.dir / "x");
  ranks::note_job(step("1"), high, runs.dir / "x-2");
  CHECK(runs.found(step("0", "1"), low) == goes_on("x"));
  CHECK(runs.found(step("1", "1"), high) == goes_on("x-2"));
  // Whatever number a step has now: a script may leave out at its second start what is done.
  CHECK(runs.found(step("0", "1"), high) == goes_on("x-2"));
  // One that had not begun finds no other run's, nor does the same file's name elsewhere.
  CHECK(runs.found(step("1", "1"), with({"optimizer.lr=3e-2", "train.max_steps=30"})).empty());
  CHECK(runs.found(step("0", "1"), with(low.overrides, "other/x.toml")).empty());
  CHECK(runs.found(step("0", "1"), with({"optimizer.lr=1e-2,train.max_steps=30"})).empty());
}

TEST_CASE("runs of one command are told apart by their steps; the last of several of one step counts") {
  Runs runs({"x", "x-2", "x-3", "x-10"});
  const auto command = with({"train.max_steps=30"});
  ranks::note_job(step("0"), command, runs.dir / "x");
  ranks::note_job(step("1"), command, runs.dir / "x-2");
  ranks::note_job(step("1"), command, runs.dir / "x-10");
  CHECK(runs.found(step("0", "1"), command) == goes_on("x"));
  CHECK(runs.found(step("1", "1"), command) == goes_on("x-10"));
  CHECK(runs.found(step("7", "1"), command) == goes_on("x-10"));
  // Without srun there are no steps.
  const auto alone = launch::environment({{"SLURM_JOB_ID", "4711"}, {"SLURM_RESTART_COUNT", "1"}});
  CHECK(runs.found(alone, command) == goes_on("x-10"));
  ranks::note_job(alone, command, runs.dir / "x-3");
  CHECK(runs.found(alone, command) == goes_on("x-3"));
}

TEST_CASE("tasks of an array are told apart") {
  const Runs runs({"x"});
  const auto task = [](const char* index, const char* restarts) {
    return launch::environment({{"SLURM_JOB_ID", "5000"},
                                {"SLURM_ARRAY_JOB_ID", "4711"},
                                {"SLURM_ARRAY_TASK_ID", index},
                                {"SLURM_STEP_ID", "0"},
                                {"SLURM_RESTART_COUNT", restarts}});
  };
  const auto command = with({"a.b=\"c\nd\""}, "/configs/x.toml");
  ranks::note_job(task("3", "0"), command, runs.dir / "x");
  CHECK(read_file(runs.dir / "x/slurm-job") == "4711_3\nstep 0\n[\"/configs/x.toml\",\"a.b=\\\"c\\nd\\\"\"]\n");
  CHECK(runs.found(task("3", "2"), command) == goes_on("x"));
  CHECK(runs.found(task("4", "2"), command).empty());
}

TEST_CASE("a run's note that cannot be read is not a run of another job") {
  const Runs runs({"x", "x-2"});
  ranks::note_job(step("0"), with({}), runs.dir / "x-2");
  CHECK(runs.found(step("0", "1"), with({})) == goes_on("x-2"));
  // One that cannot be this job's does no harm where its own is found.
  fs::create_symlink("slurm-job", runs.dir / "x/slurm-job");
  CHECK(runs.found(step("0", "1"), with({})) == goes_on("x-2"));
  fs::rename(runs.dir / "x-2/slurm-job", runs.dir / "x-2/note");
  fs::create_symlink("slurm-job", runs.dir / "x-2/slurm-job");
  CHECK_THROWS_WITH(runs.found(step("0", "1"), with({})),
                    Contains("slurm-job: cannot look at it: Too many levels of symbolic links"));
  fs::rename(runs.dir, runs.folder.path() / "elsewhere");
  fs::create_symlink("runs", runs.dir);
  CHECK_THROWS_WITH(runs.found(step("0", "1"), with({})), Contains("cannot list it: Too many"));
}

TEST_CASE("the command that continues a run is the one that began, with the run's name, as a shell reads it") {
  CHECK(ranks::resume_command({"capstan", "run", "a.toml", "-n", "4", "train.max_steps=9"}, "runs/a-2") ==
        "capstan run a.toml -n 4 train.max_steps=9 'run.name=\"a-2\"' checkpoint.resume=auto");
  CHECK(ranks::resume_command(
            {"bin/capstan", "run", "my runs/a.toml", "run.name=b", "checkpoint.resume=runs/c", "data.train=it's"},
            "runs/b") ==
        R"(bin/capstan run 'my runs/a.toml' 'data.train=it'\''s' 'run.name="b"' checkpoint.resume=auto)");
}

}  // namespace restart_test
