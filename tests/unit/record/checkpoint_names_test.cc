// Which folders are checkpoints, by their names.
#include "record/checkpoint_names.h"

#include <capstan/record/checkpoints.h>
#include <capstan_catch.h>

#include "support/folder.h"

namespace checkpoint_names_test {

using namespace capstan::checkpoint;
namespace fs = std::filesystem;

TEST_CASE("a step is read from a checkpoint's name alone, and no number is too long for one") {
  CHECK(step_of("step-00000100") == 100);
  CHECK(step_of("step-123456789") == 123456789);
  CHECK(step_of(step_folder("/runs/x", 7).filename().string()) == 7);
  for (const char* name : {"step-", "step-7.tmp-1", "step--7", "step-00000100.replaced", "steps-7", "latest",
                           "step-9999999999999999999"}) {
    INFO(name);
    CHECK_FALSE(step_of(name));
  }
}

TEST_CASE("committed checkpoints are listed from the newest, and one that was set aside counts where it stands alone") {
  const test::Folder folder;
  CHECK(committed(folder / "none").empty());
  for (const char* name : {"step-00000009", "step-00000100", "step-00000100.replaced", "step-00000050.replaced",
                           "step-00000200.tmp-1", "other"}) {
    fs::create_directory(folder / name);
  }
  folder.write("step-00000300", "a file");
  CHECK(committed(folder.path()) ==
        std::vector<fs::path>{folder / "step-00000100", folder / "step-00000050.replaced", folder / "step-00000009"});
}

TEST_CASE("a path that a user names leads to the checkpoints of a run, of a link file, or is their folder") {
  const test::Folder folder;
  folder.write("run/checkpoints/latest", "step-00000001");
  fs::create_directories(folder / "run/checkpoints/step-00000001");
  const auto checkpoints = folder / "run/checkpoints";
  CHECK(folder_at(folder / "run") == checkpoints);
  CHECK(folder_at(checkpoints / "latest") == checkpoints);
  CHECK(folder_at(checkpoints) == checkpoints);
  CHECK_FALSE(is_latest(folder / "latest"));
  CHECK_FALSE(is_checkpoint(checkpoints / "step-00000001"));
  folder.write("run/checkpoints/step-00000001/manifest.json", "{}");
  CHECK(is_checkpoint(checkpoints / "step-00000001"));
}

}  // namespace checkpoint_names_test
