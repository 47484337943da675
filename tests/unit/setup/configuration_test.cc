#include "setup/configuration.h"

#include <capstan/base/text.h>
#include <capstan_catch.h>

#include <string>

#include "support/folder.h"

namespace configuration_test {

using namespace capstan;

namespace {

setup::Configuration configuration(const test::Folder& folder, const std::string& text, Diagnostics& faults,
                                   setup::JobRequest request = {}) {
  request.file = folder.write("a.toml", text);
  return setup::read_configuration(request, faults);
}

}  // namespace

TEST_CASE("what no option's range says is faulted where it is set, all at once") {
  const test::Folder folder;
  Diagnostics faults;
  configuration(folder, "[train]\ntop_p = 0.5\n[optimizer]\nrestarts = 3\n", faults);
  REQUIRE(faults.size() == 3);
  CHECK(faults.list()[0].where.ends_with("a.toml:4"));
  CHECK_THAT(faults.list()[0].what, Contains("optimizer.restarts"));
  CHECK(faults.list()[1].where.ends_with("a.toml:2"));
  CHECK_THAT(faults.list()[1].what, Contains("train.top_p"));
  CHECK_THAT(faults.list()[2].what, Contains("neither train.max_steps nor train.epochs"));
}

TEST_CASE("numbers that would act on nothing, or for ever, are refused in words where they are set") {
  const test::Folder folder;
  struct Row {
    const char* option;
    const char* said;
  };
  for (const auto& [option, said] :
       {Row{"[train]\ntemperature = 1e-30\n", "train.temperature is 1e-30, from which nothing can be drawn"},
        Row{"[train]\ntemperature = 0.0099\n", "from which nothing can be drawn"},
        Row{"[train]\ntemperature = 1e30\n", "must be between 0 and 100"},
        Row{"[train]\ntemperature = 1.0\ntop_p = 1e-30\n", "must be between 0.001 and 1"},
        Row{"[optimizer]\nlr = 1e300\n", "optimizer.lr is 1e+300, but must be between 0 and 1000000"},
        Row{"[optimizer]\nweight_decay = 1e30\n", "must be between 0 and 1000000"},
        Row{"[checkpoint]\nevery_minutes = 1e308\n", "must be between 0 and 1000000"}}) {
    INFO(option);
    Diagnostics faults;
    setup::JobRequest request;
    request.purpose = setup::Purpose::evaluate;
    configuration(folder, option, faults, request);
    REQUIRE(faults.size() == 1);
    CHECK_THAT(faults.list()[0].text(), Contains(said) && Contains("a.toml:"));
  }
  for (const char* good : {"[train]\ntemperature = 0.01\ntop_p = 0.001\n", "[train]\ntemperature = 0\n"}) {
    Diagnostics faults;
    setup::JobRequest request;
    request.purpose = setup::Purpose::evaluate;
    configuration(folder, good, faults, request);
    CHECK(faults.empty());
  }
}

TEST_CASE("only training needs a length") {
  const test::Folder folder;
  Diagnostics faults;
  setup::JobRequest request;
  request.purpose = setup::Purpose::evaluate;
  CHECK_FALSE(configuration(folder, "[train]\n", faults, request).trains());
  CHECK(faults.empty());
}

TEST_CASE("an automatic micro-batch is one sample until it is chosen") {
  const test::Folder folder;
  Diagnostics faults;
  const auto chosen = configuration(folder, "[train]\nmax_steps = 1\nmicro_batch = \"auto\"\n", faults);
  CHECK(chosen.auto_micro_batch);
  CHECK(chosen.train->micro_batch == 1);
  CHECK_FALSE(configuration(folder, "[train]\nmax_steps = 1\nmicro_batch = 2\n", faults).auto_micro_batch);
  CHECK(faults.empty());
}

TEST_CASE("the device is the request's, and a GPU elsewhere only where the precision asks for one and it may be") {
  const test::Folder folder;
  Diagnostics faults;
  const auto device = [&](const std::string& text, bool may_move) {
    setup::JobRequest request;
    request.may_move = may_move;
    return configuration(folder, "[train]\nmax_steps = 1\n" + text, faults, request).device;
  };
  CHECK(device("precision = \"bf16\"\n", true) == "cpu");
  CHECK(device("precision = \"fp16\"\n", true) == "cuda");
  CHECK(device("[run]\ndevice = \"cuda\"\n", false) == "cuda");
  CHECK(faults.empty());
  CHECK(device("precision = \"fp16\"\n", false) == "cpu");
  CHECK(faults.size() == 1);
}

TEST_CASE("a file in the place of the cache is said of the option, or of the environment") {
  const test::Folder folder;
  const auto file = folder.write("file", "");
  Diagnostics faults;
  configuration(folder, cat("[train]\nmax_steps = 1\n[run]\ncache = \"", file, "\"\n"), faults);
  setup::JobRequest request;
  request.cache = file;
  configuration(folder, "[train]\nmax_steps = 1\n", faults, request);
  REQUIRE(faults.size() == 2);
  CHECK(faults.list()[0].where.ends_with("a.toml:4"));
  CHECK(faults.list()[1].where == "CAPSTAN_CACHE");
}

TEST_CASE("a checkpoint to resume from is in the folder of the file that names it") {
  const test::Folder folder;
  Diagnostics faults;
  const auto resume = [&](const std::string& value) {
    return configuration(folder, "[checkpoint]\nresume = \"" + value + "\"\n", faults).checkpoint->resume;
  };
  CHECK(resume("old") == (folder / "old").string());
  CHECK(resume("auto") == "auto");
}

}  // namespace configuration_test
