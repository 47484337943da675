#include "plugins/commands/import-deepspeed/deepspeed_keys.h"

#include <capstan/base/text.h>
#include <capstan_catch.h>

#include <set>

namespace deepspeed_keys_test {

using namespace capstan;
using namespace import_deepspeed;

TEST_CASE("the table that the command prints has a row for each key") {
  const auto table = deepspeed_keys_markdown();
  for (const auto& key : deepspeed_keys()) {
    INFO(key.path);
    CHECK(table.find(cat("`", key.path, "`")) != std::string::npos);
  }
}

TEST_CASE("each key is there once, and what is taken over says where") {
  std::set<std::string> paths;
  for (const auto& key : deepspeed_keys()) {
    INFO(key.path);
    CHECK(paths.insert(key.path).second);
    if (key.take == Take::copied) CHECK_FALSE(key.ours.empty());
    if (key.take == Take::required) CHECK_FALSE(key.required.empty());
    if (key.take == Take::ignored || key.take == Take::off) CHECK_FALSE(key.why.empty());
  }
}

TEST_CASE("capstan reference prints the same keys") {
  const auto table = deepspeed_file_keys().at(0);
  CHECK(table.keys.size() == deepspeed_keys().size());
  CHECK(table.find("zero_optimization.stage")->words == "strategy.zero.stage: absent: 0");
  CHECK(table.find("steps_per_print")->use == config::FileKey::Use::neutral);
  CHECK(table.find("amp.enabled")->allowed == std::vector<std::string>{"false"});
  CHECK(table.find("elasticity.enabled")->use == config::FileKey::Use::only);
}

TEST_CASE("a key's bounds are its own: from one on, above 0, or at most") {
  DeepSpeedKey key{"x"};
  key.least = 1;
  CHECK(key.takes(1));
  CHECK_FALSE(key.takes(0.999));
  key.is_above = true;
  CHECK_FALSE(key.takes(1));
  key.most = 2;
  CHECK(key.takes(2));
  CHECK_FALSE(key.takes(2.001));
}

}  // namespace deepspeed_keys_test
