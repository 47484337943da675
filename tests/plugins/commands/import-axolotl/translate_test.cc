// What a whole file becomes, as a configuration is read; and what is said of keys that it does not become.
#include "config/document.h"

#include <capstan/base/text.h>
#include <capstan_catch.h>

#include "axolotl_file.h"
#include "support/folder.h"

namespace axolotl_translate_test {

using namespace capstan;
using test::axolotl_faults;
using test::import_axolotl_text;

TEST_CASE("what is printed is TOML, whatever the file's name and texts are") {
  auto file =
      test::axolotl_file(test::least_and("\"wandb_project\": \"a\\n[train]\\\"\\u0001\", \"eta_min\": 1, "
                                         "\"micro_batch_size\": 2,\n\"sample_packing\": true"));
  file.name = "odd\n[run]";
  const auto translated = import_axolotl::translate(file, {});
  const test::Folder folder;
  Diagnostics faults;
  const auto document = config::load(folder.write("a.toml", translated.toml), {}, faults);
  INFO(translated.toml);
  CHECK(faults.empty());
  CHECK(document.section("model").find("path")->value == config::Value("org/model"));
  CHECK(document.section("train").find("micro_batch") == nullptr);
  CHECK(document.section("run").entries.empty());
}

TEST_CASE("keys that are unknown are named, with the nearest known one") {
  const auto notes = join(import_axolotl_text(R"("lora_rr": 8,
"fsdp_config": {"reshard_after_forwrd": true})")
                              .notes,
                          "\n");
  CHECK_THAT(notes,
             Contains("a.yml:2: lora_rr is not a key that import-axolotl knows, and is not taken over: did you mean "
                      "'lora_r'?"));
  CHECK_THAT(notes, Contains("fsdp_config.reshard_after_forwrd is not a key"));
  CHECK_THAT(join(axolotl_faults(R"("model_config": {"num_hidden_layers": 2})")),
             Contains("model_config.num_hidden_layers has no counterpart"));
}

TEST_CASE("keys that change nothing are named where they are on, and pass in silence where they are off") {
  CHECK_THAT(join(import_axolotl_text(R"("flash_attention": true)").notes),
             Contains("a.yml:2: flash_attention is not taken over: attention takes the fastest kernel"));
  CHECK_THAT(join(import_axolotl_text(R"("flash_attention": false, "tf32": null, "plugins": [])").notes),
             !Contains("flash"));
  const auto liger = R"("plugins": ["axolotl.integrations.liger.LigerPlugin"])";
  CHECK(axolotl_faults(liger).empty());
}

TEST_CASE("what would change what is learned is refused, all faults at once with their lines") {
  const auto faults = axolotl_faults(R"("neftune_noise_alpha": 5,
"unfrozen_parameters": ["lm_head.*"], "rl": "kto",
"tokens": ["<x>"], "plugins": ["axolotl.integrations.kd.KDPlugin"],
"processor_type": "AutoProcessor", "resume_from_checkpoint": "out/checkpoint-1", "reward_model": true)");
  CHECK(faults.size() == 8);
  for (const char* fault :
       {"a.yml:2: neftune_noise_alpha has no counterpart in Capstan (remove it to train without)",
        "a.yml:3: unfrozen_parameters has no counterpart in Capstan (parts are frozen only under [strategy.lora]",
        "a.yml:3: rl is kto", "a.yml:4: tokens has no counterpart", "a.yml:4: plugins names axolotl.integrations.kd",
        "a.yml:5: processor_type", "a.yml:5: resume_from_checkpoint", "a.yml:5: reward_model"})
    CHECK_THAT(join(faults, "\n"), Contains(fault));
}

// A configuration with one key, given by its path in the table, that says this.
std::string with_key(const std::string& path, const Json& value, const Json& data_set) {
  auto json = Json::object();
  const auto dot = path.find('.');
  if (path.starts_with("datasets[].")) {
    auto row = data_set;
    row[path.substr(dot + 1)] = value;
    json["datasets"] = Json::array({row});
  } else if (dot != std::string::npos) {
    json[path.substr(0, dot)][path.substr(dot + 1)] = value;
  } else {
    json[path] = value;
  }
  const auto text = json.dump();
  return text.substr(1, text.size() - 2);
}

TEST_CASE("whatever a key says, the file is translated or refused in words") {
  const auto values = Json::parse(R"([true, false, 0, 1, -3, 0.5, 1e300, "", "x", "no/such", [], ["x"], [1], [[1]], {},
    {"a": 1}, {"a": {"b": null}}, [{"a": 1}], "\u0000", "[:", "train[:"])");
  const auto rows = Json::parse(R"({"path": "org/rows", "type": "chat_template"})");
  const auto pairs = Json::parse(R"({"path": "org/rows", "type": "chat_template.default"})");
  std::size_t translated = 0, refused = 0;
  for (const auto& key : import_axolotl::axolotl_keys()) {
    if (key.take == import_axolotl::Take::neutral || key.take == import_axolotl::Take::refused) continue;
    for (const auto& value : values) {
      for (const std::string more : {"", R"("rl": "dpo")", R"("adapter": "lora", "load_in_4bit": true)"}) {
        auto members = with_key(key.path, value, more.empty() ? rows : pairs);
        if (!more.empty() && more.find("\"" + key.path + "\":") == std::string::npos) members += ", " + more;
        INFO(members);
        try {
          test::import_axolotl_text(members);
          ++translated;
        } catch (const Error& error) {
          REQUIRE_FALSE(error.diagnostics().empty());
          ++refused;
        }
      }
    }
  }
  CHECK(translated > 1000);
  CHECK(refused > 1000);
}

TEST_CASE("a file that is no configuration of axolotl's is refused") {
  CHECK_THAT(join(axolotl_faults(R"("base_model": null)")), Contains("base_model is not there"));
  CHECK_THAT(join(axolotl_faults(R"("datasets": null)")), Contains("datasets names no data set"));
  CHECK_THAT(join(axolotl_faults(R"("datasets": "org/rows")")), Contains("datasets names no data set"));
  CHECK_THAT(join(axolotl_faults(R"("datasets": ["org/rows"])")),
             Contains("datasets[0] is \"org/rows\", expected a table"));
  CHECK_THAT(join(axolotl_faults(R"("micro_batch_size": "two")")),
             Contains("micro_batch_size is \"two\", expected an integer"));
  CHECK_THAT(join(axolotl_faults(R"("fsdp_config": "full")")), Contains("fsdp_config is \"full\", expected a table"));
}

}  // namespace axolotl_translate_test
