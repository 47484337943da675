// What runs are called after their configurations' files.
#include <capstan/config/run_name.h>
#include <capstan_catch.h>
#include <capstan_places.h>

#include <map>

namespace run_name_test {

using capstan::config::name_of_run;
namespace fs = std::filesystem;

TEST_CASE("a run is called as its file, with its folders inside of a collection of configs") {
  CHECK(name_of_run("a.toml") == "a");
  CHECK(name_of_run("").empty());
  CHECK(name_of_run("/home/me/mine/b.toml") == "b");
  CHECK(name_of_run("/x/configs/bloom.toml") == "bloom");
  CHECK(name_of_run("/x/configs/workshop/baseline.toml") == "baseline");
  CHECK(name_of_run("/x/configs/workshop/zero/baseline.toml") == "zero-baseline");
  CHECK(name_of_run("/x/configs/workshop/base/../zero/baseline.toml") == "zero-baseline");
  CHECK(name_of_run("/configs/a/b/configs/c/d/e.toml") == "d-e");
}

TEST_CASE("no two of the workshop's experiments have the same name") {
  std::map<std::string, fs::path> files;
  for (const auto& entry : fs::recursive_directory_iterator(fs::path(CAPSTAN_SOURCE_DIR) / "configs/workshop")) {
    if (entry.path().extension() != ".toml") continue;
    const auto [first, is_new] = files.emplace(name_of_run(entry.path()), entry.path());
    INFO(entry.path() << " and " << first->second);
    CHECK(is_new);
  }
  CHECK(files.contains("zero-weak_scaling_2_gpus"));
  CHECK(files.contains("fsdp-weak_scaling_2_gpus"));
}

}  // namespace run_name_test
