// docs/from-the-workshop.md has the tables that errors are made from, and every option that they name exists.
#include <capstan/base/files.h>
#include <capstan/base/text.h>
#include <capstan/setup/host_schemas.h>
#include <capstan_catch.h>
#include <capstan_places.h>

#include <filesystem>
#include <set>

#include "config/document.h"
#include "config/plugin_table.h"
#include "plugin/hints.h"
#include "plugins/commands/import-deepspeed/hints.h"

namespace from_the_workshop_test {

using namespace capstan;

namespace {

// "train.micro_batch", "strategy.fsdp.mode", "strategy.fsdp", "model.path" and, of any model or data plugin,
// "model.hidden_size".
std::set<std::string> all_options() {
  std::set<std::string> out;
  const auto add = [&](const std::string& table, const config::Schema& schema) {
    out.insert(table);
    for (const auto& spec : schema) out.insert(table + "." + spec.key);
  };
  for (const auto& [table, schema] : setup::host_schemas()) add(table, schema);
  plugin::Host host;
  for (const auto& found : host.discover()) {
    if (!found.registration) continue;
    const auto& plugin = *found.registration;
    const auto& groups = config::group_names();
    const bool keyed = std::find(groups.begin(), groups.end(), plugin.kind) != groups.end();
    const auto table = keyed ? plugin.kind + "." + plugin.name : plugin.kind;
    add(table, plugin.schema);
    add(table, config::host_options(plugin.kind));
  }
  return out;
}

}  // namespace

TEST_CASE("every option that another program's key leads to exists") {
  const auto options = all_options();
  std::size_t found = 0;
  for (const auto& key : import_deepspeed::all_hints()) {
    if (key.ours.empty()) continue;
    INFO(key.program << " " << key.key << " -> " << key.ours);
    const auto table = options.contains(key.ours) ? key.ours : key.ours.substr(0, key.ours.rfind('.'));
    if (!options.contains(table)) continue;  // a build may leave a plugin out
    CHECK(options.contains(key.ours));
    ++found;
  }
  CHECK(found > 80);
}

// What is said of an option in the fsdp plugin's table.
std::string fsdp_fault(const std::string& key, const std::string& value) {
  plugin::Host host;
  Diagnostics diagnostics;
  for (const auto& found : host.discover()) {
    if (!found.registration || found.registration->name != "fsdp") continue;
    config::Section section;
    section.path = "strategy.fsdp";
    section.entries.push_back({key, value, {config::Origin::Layer::file, "a.toml", 3}});
    config::resolve(found.registration->schema, section, diagnostics);
  }
  return diagnostics.empty() ? "" : plugin::with_hints(Error(diagnostics.list()), host).diagnostics().front().fix;
}

TEST_CASE("the workshop's own FSDP values are answered with ours") {
  CHECK(fsdp_fault("backward_prefetch", "backward_post") == "did you mean 'post'?");
  CHECK(fsdp_fault("backward_prefetch", "backward_pre") == "did you mean 'pre'?");
  for (const char* mode : {"FULL_SHARD", "SHARD_GRAD_OP", "HYBRID_SHARD", "NO_SHARD"})
    CHECK(fsdp_fault("mode", mode) == cat("did you mean '", lower(mode), "'?"));
  CHECK(fsdp_fault("mode", "full_shard auto_wrap") == "did you mean 'full_shard'?");
  CHECK_THAT(fsdp_fault("sharding_strategy", "FULL_SHARD"),
             Catch::Matchers::StartsWith("did you mean 'strategy.fsdp.mode'?"));
  CHECK_THAT(fsdp_fault("auto_wrap_policy", "TRANSFORMER_BASED_WRAP"),
             Contains("every block is a unit; strategy.fsdp.wrap or min_num_params joins them"));
}

// A program's keys as a Markdown table.
std::string markdown(const std::string& program) {
  std::string out = "| typed today | in Capstan | |\n|---|---|---|\n";
  for (const auto& key : import_deepspeed::all_hints()) {
    if (key.program != program) continue;
    out += cat("| `", key.key, "` | ", key.ours.empty() ? "not needed" : cat("`", key.ours, "`"), " | ",
               key.ours.empty() ? "because: " : "", key.why, " |\n");
  }
  return out;
}

TEST_CASE("docs/from-the-workshop.md holds the tables of those that have no page of their own") {
  const auto document = read_file(CAPSTAN_SOURCE_DIR "/docs/from-the-workshop.md");
  for (const char* program : {"env_vars.sh", "TrainingArguments", "fsdp_config", "NeMo", "launchers"}) {
    INFO(program);
    const auto begin = cat("<!-- keys of ", program, " -->\n");
    const auto first = document.find(begin), last = document.find("<!-- end of keys -->", first);
    REQUIRE(first != std::string::npos);
    REQUIRE(last != std::string::npos);
    CHECK(document.substr(first + begin.size(), last - first - begin.size()) == markdown(program));
  }
}

}  // namespace from_the_workshop_test
