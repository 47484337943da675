#include "plugins/commands/import-axolotl/axolotl_keys.h"

#include <capstan/base/text.h>
#include <capstan_catch.h>

#include <set>

namespace axolotl_keys_test {

using namespace capstan;
using namespace import_axolotl;

TEST_CASE("each of axolotl's keys is there once, and each says what becomes of it") {
  std::set<std::string> paths;
  for (const auto& key : axolotl_keys()) {
    INFO(key.path);
    CHECK(paths.insert(key.path).second);
    CHECK(!(key.ours.empty() && key.words.empty()));
    if (key.take == Take::copied) CHECK_FALSE(key.ours.empty());
  }
  CHECK(paths.size() > 400);
}

TEST_CASE("the table that import-axolotl prints and the one of capstan reference have the same keys") {
  const auto markdown = axolotl_keys_markdown();
  const auto table = axolotl_file_keys().at(0);
  CHECK(table.keys.size() == axolotl_keys().size());
  CHECK(table.unknown == config::FileKeys::Unknown::named);
  for (const auto& key : table.keys) CHECK(markdown.find(cat("| `", key.name, "` |")) != std::string::npos);
  CHECK(table.find("lora_r")->words == "strategy.lora.rank: absent: 8");
  CHECK(table.find("flash_attention")->use == config::FileKey::Use::neutral);
  CHECK(table.find("neftune_noise_alpha")->use == config::FileKey::Use::refused);
}

}  // namespace axolotl_keys_test
