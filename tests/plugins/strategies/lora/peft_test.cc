#include <capstan/base/files.h>
#include <capstan/base/json.h>
#include <capstan_catch.h>

#include <string>
#include <vector>

#include "plugins/strategies/lora/jobs.h"

namespace peft_test {

using namespace capstan;
using namespace lora_test;

TEST_CASE("peft is told the shortest ends of names that only adapted modules have") {
  const auto config_of = [](const std::string& options) {
    const Scratch scratch;
    write_drawn_adapter(llama + lora_table(options), scratch / "adapter");
    return Json::parse(read_file(scratch / "adapter/adapter_config.json"));
  };
  const auto targets = [](const Json& config) { return config.at("target_modules").get<std::vector<std::string>>(); };
  const auto all = config_of("targets = [\"q_proj\"]\nalpha = 7\n");
  CHECK(targets(all) == std::vector<std::string>{"q_proj"});
  CHECK(all.at("r") == 3);
  CHECK(all.at("lora_alpha") == 7);
  CHECK(all.at("modules_to_save").is_null());
  const auto one = config_of("targets = [\"layers.0.self_attn.q_proj\"]\nmodules_to_save = [\"norm\"]\n");
  CHECK(targets(one) == std::vector<std::string>{"0.self_attn.q_proj"});
  CHECK(one.at("modules_to_save") == Json::array({"model.norm"}));
}

}  // namespace peft_test
