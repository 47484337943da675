#include "job/data_plugins.h"

#include <capstan/base/text.h>
#include <capstan/data/parts.h>

#include <algorithm>
#include <filesystem>
#include <utility>

#include "data/sample_form.h"

namespace capstan::job {
namespace {

using config::Section;

bool has(const config::Schema& schema, const std::string& key) {
  return std::any_of(schema.begin(), schema.end(), [&](const auto& spec) { return spec.key == key; });
}

// What names an evaluation file, as far as options tell: a run's own config.toml sets all of them.
std::string where_evaluation(const Made<data::Data>& made) {
  for (const auto& option : made.options) {
    const bool is_set = option.origin.layer != config::Origin::Layer::default_value;
    const bool is_of_a_set = option.spec.key == "eval_files";
    if (is_set && !is_of_a_set && data::is_of_evaluation(option.spec.key) && option.value != option.spec.default_value)
      return cat(made.table, ".", option.spec.key, ", ", option.origin.text());
  }
  return {};
}

std::shared_ptr<const data::SharedData> share(const setup::Configuration& config, const Plugins& plugins,
                                              const Made<data::Data>& made) {
  const auto& options = plugins.data_parts.options;
  data::EvalShare share{options->eval_fraction, static_cast<std::uint64_t>(config.run->seed),
                        options.where(&setup::DataOptions::eval_fraction), where_evaluation(made)};
  return std::make_shared<data::SharedData>(made.object, std::move(share));
}

// Where a table gives no name: that of its training file, or of its plugin. The plugin itself is not told of a split
// that is not read.
std::string name_of(const config::Options<setup::DataSourceOptions>& options, const Section& table,
                    const Made<data::Data>& made) {
  if (options->name) return *options->name;
  const auto* entry = table.find("train");
  const auto* file = entry ? std::get_if<std::string>(&entry->value) : nullptr;
  const bool is_path = std::any_of(made.options.begin(), made.options.end(), [](const auto& option) {
    return option.spec.key == "train" && option.spec.is_path;
  });
  return file && is_path && !file->empty() ? std::filesystem::path(*file).stem().string() : made.name;
}

// Figures are named after it.
void check_name(const DataSourceTable& source, const std::vector<DataSourceTable>& before, Diagnostics& faults) {
  constexpr const char* word = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-";
  const auto& options = source.options;
  const auto where = options.is_set(&setup::DataSourceOptions::name) ? options.where(&setup::DataSourceOptions::name)
                                                                     : source.made.where;
  const auto same =
      std::find_if(before.begin(), before.end(), [&](const auto& one) { return one.name == source.name; });
  if (same != before.end()) {
    faults.add(where,
               cat(source.made.table, " and ", same->made.table, " (", same->made.where, ") are both named '",
                   source.name, "'"),
               "give each a name of its own");
  } else if (source.name.empty() || source.name.find_first_not_of(word) != std::string::npos) {
    faults.add(where, cat("figures of ", source.made.table, " would be named after '", source.name, "'"),
               "set its name to letters, digits, '_' and '-'");
  }
}

// What is said for all sources.
void refuse_common(Section& table, Diagnostics& faults) {
  const auto& common = config::Options<setup::DataOptions>::schema();
  std::erase_if(table.entries, [&](const auto& entry) {
    if (!has(common, entry.key)) return false;
    faults.add(entry.origin.text(), cat(table.path, ".", entry.key, " is an option of [data], for all sources"),
               cat("move it to [data]"));
    return true;
  });
}

// The split that alone is read, so that files of others may be gone. A share for evaluation is in the training file,
// and a source that evaluates nothing says so in a run's own config.toml by an empty name.
std::string only_split(const setup::Configuration& config, const Plugins& plugins, const Section& table) {
  const auto& split = config.request.split;
  const auto* entry = table.find(split);
  const bool is_empty = entry && entry->value == config::Value(std::string());
  const bool is_source = table.path != "data";
  return plugins.data_parts.options->eval_fraction > 0 || (is_source && is_empty) ? "" : split;
}

std::optional<DataSourceTable> load_source(const setup::Configuration& config, Section table, Loader& loader,
                                           const Plugins& plugins, Diagnostics& faults) {
  using Options = config::Options<setup::DataSourceOptions>;
  refuse_common(table, faults);
  DataSourceTable source{{}, Options(config::take(table, Options::schema()), faults), {}, {}};
  if (source.options->plugin.empty()) return {};  // a fault says so
  table.entries.push_back(*source.options.section().find("plugin"));
  const auto chosen = config::chosen_plugin(table, faults);
  if (chosen.name.empty()) return {};
  auto made = loader.make<data::Data>("data", chosen, {}, only_split(config, plugins, chosen.section));
  if (!made) return {};
  if (std::dynamic_pointer_cast<data::MadeOfParts>(made->object)) {
    faults.add(made->where, cat("the data plugin '", made->name, "' is made of sources, and cannot be one"),
               "name its sources in [[data.sources]]");
    return {};
  }
  source.made = std::move(*made);
  source.name = name_of(source.options, chosen.section, source.made);
  source.options.derive(&setup::DataSourceOptions::name, source.name);
  source.shared = share(config, plugins, source.made);
  check_name(source, plugins.data_parts.sources, faults);
  return source;
}

// An option that a source's plugin knows, and not the one that is made of them, such as `train`.
void refuse_beside(Section& section, const config::Schema& known, const Plugins& plugins, Diagnostics& faults) {
  std::erase_if(section.entries, [&](const auto& entry) {
    if (entry.key == "plugin" || has(known, entry.key)) return false;
    const auto of =
        std::find_if(plugins.data_parts.sources.begin(), plugins.data_parts.sources.end(), [&](const auto& source) {
          const auto& options = source.made.options;
          return std::any_of(options.begin(), options.end(),
                             [&](const auto& one) { return one.spec.key == entry.key; });
        });
    if (of == plugins.data_parts.sources.end()) return false;
    faults.add(entry.origin.text(),
               cat("data.", entry.key, " stands beside [[data.sources]] (", of->made.where, "), which name the data"),
               cat("move it to the table of the source that it is about, such as ", of->made.table,
                   ", or take the sources out"));
    return true;
  });
}

void give_parts(Plugins& plugins, Diagnostics& faults) {
  const auto& made = *plugins.data;
  const auto whole = std::dynamic_pointer_cast<data::MadeOfParts>(made.object);
  if (whole && plugins.data_parts.sources.empty()) {
    faults.add(made.where, cat("the data plugin '", made.name, "' is made of sources, and there are none"),
               "write a table [[data.sources]] for each, with its plugin");
  } else if (!whole && !plugins.data_parts.sources.empty()) {
    faults.add(made.where,
               cat("the data plugin '", made.name, "' is not made of sources, and there are [[data.sources]]"),
               R"(remove data.plugin, or set it to "mixture")");
  }
  if (!whole || plugins.data_parts.sources.empty()) return;
  std::vector<data::DataPart> parts;
  for (const auto& source : plugins.data_parts.sources)
    parts.push_back({source.name, source.options->weight, source.made.where, source.shared});
  plugin::guard(made.name, "take", [&] { whole->take(std::move(parts)); });
}

std::optional<Made<data::Data>> load_whole(const setup::Configuration& config, Section section,
                                           const std::vector<Section>& tables, Loader& loader, Plugins& plugins,
                                           Diagnostics& faults) {
  const auto before = faults.size();
  for (const auto& table : tables) {
    if (auto source = load_source(config, table, loader, plugins, faults))
      plugins.data_parts.sources.push_back(std::move(*source));
  }
  if (!tables.empty() && !section.find("plugin"))
    section.entries.push_back({"plugin", std::string("mixture"), tables.front().origin});
  const auto chosen = config::chosen_plugin(section, faults);
  if (chosen.name.empty()) return {};
  auto table = chosen;
  if (!tables.empty()) {
    setup::collect(
        faults, [&] { refuse_beside(table.section, loader.schema_of("data", chosen), plugins, faults); }, chosen.where);
  }
  auto made = loader.make<data::Data>("data", table, {}, only_split(config, plugins, table.section));
  return faults.size() == before ? made : std::nullopt;
}

}  // namespace

void load_data(const setup::Configuration& config, bool needed, Loader& loader, Plugins& plugins, Diagnostics& faults) {
  auto section = config.document.section("data");
  const auto tables = take_tables(section, "sources");
  plugins.data_parts.options =
      config::Options<setup::DataOptions>(config::take(section, config::Options<setup::DataOptions>::schema()), faults);
  if (!needed) return;
  plugins.data = load_whole(config, std::move(section), tables, loader, plugins, faults);
  if (!plugins.data) return;
  const auto before = faults.size();
  setup::collect(
      faults, [&] { give_parts(plugins, faults); }, plugins.data->where);
  if (faults.size() != before) {
    plugins.data.reset();
    return;
  }
  auto& made = *plugins.data;
  if (tables.empty() && plugins.data_parts.options->eval_fraction > 0) {
    plugins.data_parts.shared = DataSourceTable{{}, {}, made, share(config, plugins, made)};
    made.object = std::const_pointer_cast<data::SharedData>(plugins.data_parts.shared->shared);
  }
  const auto checked_form = [&] {
    auto form = made.object->form();
    data::check_form(form);
    return form;
  };
  setup::collect(
      faults, [&] { plugins.data_parts.form = plugin::guard(made.name, "form", checked_form); }, made.where);
}

std::vector<const DataSourceTable*> shared_tables(const Plugins& plugins) {
  std::vector<const DataSourceTable*> tables;
  for (const auto& source : plugins.data_parts.sources) tables.push_back(&source);
  if (plugins.data_parts.shared) tables.push_back(&*plugins.data_parts.shared);
  return tables;
}

std::map<std::string, std::string> sums_of_files(const Plugins& plugins) {
  auto sums = data::sums_of_files(plugins.data->options);
  for (const auto& source : plugins.data_parts.sources) {
    const auto table = source.made.table.substr(std::string("data.").size());
    for (auto& [key, sum] : data::sums_of_files(source.made.options)) sums[cat(table, ".", key)] = sum;
  }
  return sums;
}

std::string text_of_shares(const Plugins& plugins) {
  std::string text;
  for (const auto* table : shared_tables(plugins)) {
    const auto& said = table->shared->text();
    if (!said.empty()) text += cat(table->name.empty() ? "" : cat("source '", table->name, "': "), said, "\n");
  }
  return text;
}

AskedLength asked_length(const Plugins& plugins) {
  const auto of = [](const Made<data::Data>& made) {
    const auto length = plugin::guard(made.name, "max_length", [&] { return made.object->max_length(); });
    return AskedLength{length, where_of(made, "max_length")};
  };
  auto longest = of(*plugins.data);
  for (const auto& source : plugins.data_parts.sources) {
    if (auto own = of(source.made); own.tokens >= longest.tokens) longest = std::move(own);
  }
  return longest;
}

}  // namespace capstan::job
