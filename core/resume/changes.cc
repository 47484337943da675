#include "resume/changes.h"

#include <capstan/base/json.h>
#include <capstan/base/printable.h>
#include <capstan/base/text.h>

#include <algorithm>
#include <optional>
#include <utility>

#include "config/document.h"
#include "config/plugin_table.h"
#include "job/sections.h"
#include "setup/schedule.h"

namespace capstan::resume {
namespace {

std::string text_of(const config::Value& value) {
  return std::holds_alternative<std::monostate>(value) ? "not set" : config::value_text(value);
}

// What the checkpoint says of its run; null where it says nothing.
Json section_of(const checkpoint::Reader& reader, const char* name) {
  if (!reader.has_section(name)) return {};
  return try_parse_json(reader.section(name));
}

config::Document saved_document(const checkpoint::Reader& reader) {
  Diagnostics ignored;
  try {
    return config::parse(reader.meta().config, reader.path().string(), ignored);
  } catch (const Error&) {
    return {reader.path().string(), {}};
  }
}

using IsFree = bool (*)(const std::string& key);

bool never(const std::string& /*key*/) { return false; }

bool is_of_train(const std::string& key) { return key != "precision"; }

class Comparison {
 public:
  Comparison(const job::Job& job, const checkpoint::Reader& reader)
      : job_(job), reader_(reader), saved_(saved_document(reader)) {}

  std::vector<Change> run() {
    const auto& plugins = job_.plugins;
    compare_chosen("model", *plugins.model, never, "the model would compute something else than what was trained");
    if (plugins.data) compare_data(*plugins.data);
    compare_optimizer(*plugins.optimizer);
    compare_objective(*plugins.objective);
    compare("train", job_.config.train.resolved(), saved_.section("train"), is_of_train,
            "it would be computed in another precision than in the run that was saved");
    compare_folders();
    compare_strategies();
    return std::move(changes_);
  }

 private:
  void add(std::string name, const std::string& where, std::string was, std::string is, const std::string& why,
           const std::string& fix) {
    Diagnostic refusal{where,
                       cat(name, " is ", is, ", but ", was, " in the checkpoint ", reader_.path().string(), ": ", why),
                       cat(fix, ", start a new run, or accept it: checkpoint.accept = [\"", name, "\"]")};
    changes_.push_back({std::move(name), std::move(was), std::move(is), std::move(refusal)});
  }

  // A table that the checkpoint's configuration does not have says nothing.
  void compare(const std::string& table, const std::vector<config::Resolved>& mine, const config::Section& saved,
               IsFree is_free, const char* why) {
    if (saved.entries.empty()) return;
    config::Schema schema;
    for (const auto& option : mine) schema.push_back(option.spec);
    Diagnostics ignored;  // options that there are no more
    const auto theirs = config::resolve(schema, saved, ignored);
    for (std::size_t i = 0; i < mine.size(); ++i) {
      const auto& spec = mine[i].spec;
      if (spec.is_path || is_free(spec.key) || mine[i].value == theirs[i].value) continue;
      const auto was = text_of(theirs[i].value);
      const bool was_set = !std::holds_alternative<std::monostate>(theirs[i].value);
      add(cat(table, ".", spec.key), mine[i].origin.text(), was, text_of(mine[i].value), why,
          was_set ? cat("set it to ", was) : "remove it");
    }
  }

  // [model] or [data]: the plugin too.
  template <class Interface>
  void compare_chosen(const std::string& table, const job::Made<Interface>& made, IsFree is_free, const char* why) {
    compare_chosen(table, made, saved_.section(table), is_free, why);
  }
  template <class Interface>
  void compare_chosen(const std::string& table, const job::Made<Interface>& made, const config::Section& section,
                      IsFree is_free, const char* why) {
    if (section.entries.empty()) return;
    Diagnostics ignored;
    const auto chosen = config::chosen_plugin(section, ignored);
    if (chosen.name != made.name) {
      return add(table + ".plugin", made.where, cat('"', chosen.name, '"'), cat('"', made.name, '"'), why,
                 cat("set it to \"", chosen.name, "\""));
    }
    compare(table, made.options, section, is_free, why);
  }

  // Older runs do not name the plugin: it is AdamW.
  void compare_optimizer(const job::Made<optimizer::Rule>& made) {
    constexpr const char* why = "parameters would be updated in another way than in the run that was saved";
    auto section = saved_.section("optimizer");
    if (section.entries.empty()) return;
    compare("optimizer", job_.config.optimizer.resolved(), section, setup::is_of_schedule, why);
    if (!section.find("plugin")) section.entries.push_back({"plugin", std::string("adamw"), {}});
    compare_chosen("optimizer", made, section, never, why);
    const auto was = groups_text(section.entries), is = groups_text(groups_now());
    if (was != is) {
      add("optimizer.groups", job_.config.document.section("optimizer").origin.text(), was, is, why,
          "write the groups that it had");
    }
  }

  // Older runs do not name the plugin: it is the cross entropy of the next token.
  void compare_objective(const job::Made<objective::Objective>& made) {
    auto section = saved_.section("objective");
    if (!section.find("plugin")) section.entries.push_back({"plugin", std::string("causal_lm"), {}});
    compare_chosen("objective", made, section, never,
                   "it would be trained for something else than in the run that was saved");
  }

  // As a checkpoint's configuration has them: with every option that has a value.
  std::vector<config::Entry> groups_now() const {
    std::vector<config::Entry> entries;
    for (const auto& group : job_.plugins.optimizer_groups) {
      auto options = group.options.resolved();
      if (group.rule) options.insert(options.end(), group.rule->options.begin(), group.rule->options.end());
      for (const auto& option : options) {
        if (std::holds_alternative<std::monostate>(option.value)) continue;
        entries.push_back(
            {group.table.substr(std::string("optimizer.").size()) + "." + option.spec.key, option.value, {}});
      }
    }
    return entries;
  }

  static std::string groups_text(const std::vector<config::Entry>& entries, const std::string& list = "groups.") {
    std::vector<std::string> set;
    for (const auto& entry : entries) {
      if (entry.key.starts_with(list)) set.push_back(cat(entry.key, " = ", config::value_text(entry.value)));
    }
    std::sort(set.begin(), set.end());
    return set.empty() ? "none" : join(set);
  }

  void compare_data(const job::Made<data::Data>& made) {
    constexpr const char* why = "other samples would follow than in the run that was saved";
    const auto before = changes_.size();
    compare_chosen("data", made, data::is_of_evaluation, why);
    compare_sources(why);
    const auto saved = section_of(reader_, job::sections::data);
    if (!job_.samples.content || !saved.is_object()) return;
    for (const auto& [key, sum] : job_.samples.content->files) {
      const auto was = saved.value("files", Json::object()).value(key, "");
      if (was.empty() || was == sum) continue;
      add("data." + key, job::where_of(made, key), cat("a file with XXH64 ", was), cat("one with ", sum), why,
          "name the file that it was, as it was");
    }
    // Where an option or a file is another, samples are others because of it.
    const auto& now = *job_.samples.content;
    const auto was = saved.value("samples", ""), more = saved.value("more", now.more);
    const auto made_of = [](const std::string& what) { return what.empty() ? "of its files alone" : "of " + what; };
    if (changes_.size() != before) return;
    if (more != now.more) return add("data", made.where, made_of(more), made_of(now.more), why, "take the same again");
    if (was.empty() || was == now.samples) return;
    add("data", made.where, cat("of tokens with XXH64 ", was, tokenizer_before()), cat("of tokens with ", now.samples),
        why, "take the data and the tokenizer that it had");
  }

  // Files count by what is in them, and the order of sources is part of what a seed means.
  void compare_sources(const char* why) {
    auto share = job_.plugins.data_parts.options.resolved();
    std::erase_if(share, [](const auto& option) { return option.spec.key != "eval_fraction"; });
    auto saved = saved_.section("data");
    compare("data", share, saved, never, why);
    std::vector<config::Entry> mine;
    for (const auto& source : job_.plugins.data_parts.sources) {
      const auto table = source.made.table.substr(std::string("data.").size());
      auto options = source.options.resolved();
      options.insert(options.end(), source.made.options.begin(), source.made.options.end());
      for (const auto& [spec, value, origin] : options) {
        const auto key = cat(table, ".", spec.key);
        if (spec.is_path || spec.key == "plugin" || data::is_of_evaluation(spec.key)) {
          std::erase_if(saved.entries, [&](const auto& entry) { return entry.key == key; });
        } else if (!std::holds_alternative<std::monostate>(value)) {
          mine.push_back({key, value, origin});
        }
      }
    }
    const auto was = groups_text(saved.entries, "sources."), is = groups_text(mine, "sources.");
    if (was == is) return;
    add("data.sources", job_.config.document.section("data").origin.text(), was, is, why,
        "write the sources that it had");
  }

  std::string tokenizer_before() const {
    const auto section = saved_.section("data");
    const auto* entry = section.find("tokenizer");
    const auto& now = job_.samples.tokenizer.name;
    if (!entry || entry->value == config::Value(now)) return {};
    return cat(" by the tokenizer ", text_of(entry->value), ", not ", now, ",");
  }

  // The name of a folder says nothing of what is in it.
  void compare_folders() {
    const auto saved = section_of(reader_, job::sections::folders);
    for (const auto& [key, sum] : job_.folders) {
      const auto was = saved.is_object() ? saved.value(key, "") : "";
      if (was.empty() || was == sum) continue;
      const auto table = job_.config.document.section(key.substr(0, key.find('.')));
      const auto* entry = table.find(key.substr(key.find('.') + 1));
      add(key, entry ? entry->origin.text() : job_.config.document.file(), cat("one with ", was),
          cat("a folder with the fingerprint ", sum), "its values are others than those of the run that was saved",
          "name a folder with the config.json and the weights that it had");
    }
  }

  void compare_strategies() {
    if (saved_.section("model").entries.empty()) return;  // no whole configuration
    constexpr const char* why = "something else would be learned than in the run that was saved";
    const auto all = saved_.children("strategy");
    const auto find = [&](const std::string& table) {
      return std::find_if(all.begin(), all.end(), [&](const auto& section) { return section.path == table; });
    };
    for (const auto& made : job_.plugins.strategies) {
      if (job::is_of_layout(*made.object)) continue;
      const auto found = find(made.table);
      if (found == all.end()) {
        add(made.table, made.where, "not there", "there", why, "remove it");
        continue;
      }
      // A table without options has been written all the same.
      auto section = *found;
      section.entries.push_back({"enabled", true, {}});
      compare(made.table, made.options, section, never, why);
    }
    const auto counted = section_of(reader_, job::sections::strategies);
    for (const auto& item : counted) {
      if (!item.is_string()) continue;
      const auto table = "strategy." + item.get<std::string>();
      const auto& mine = job_.plugins.strategies;
      if (std::any_of(mine.begin(), mine.end(), [&](const auto& made) { return made.table == table; })) continue;
      add(table, job_.config.document.file(), "there", "not there", why, cat("write [", table, "]"));
    }
  }

  const job::Job& job_;
  const checkpoint::Reader& reader_;
  config::Document saved_;
  std::vector<Change> changes_;
};

// All that checkpoint.accept may name: tables and options, also of a strategy that only the checkpoint has.
std::vector<std::string> compared_names(const job::Job& job, const checkpoint::Reader* reader) {
  std::vector<std::string> names{"train", "train.precision", "optimizer.groups", "data.sources", "strategy"};
  for (const auto& table : job.tables()) {
    const auto kind = table.path.substr(0, table.path.find('.'));
    if (kind != "model" && kind != "data" && kind != "optimizer" && kind != "objective" && kind != "strategy") continue;
    names.push_back(table.path);
    if (kind == "strategy") names.push_back(table.path + ".state");
    for (const auto& entry : table.host) names.push_back(cat(table.path, ".", entry.key));
    for (const auto& option : table.options) names.push_back(cat(table.path, ".", option.spec.key));
  }
  if (!reader) return names;
  for (const auto& section : saved_document(*reader).children("strategy")) names.push_back(section.path);
  return names;
}

}  // namespace

std::vector<Change> changes_since(const job::Job& job, const checkpoint::Reader& reader) {
  return Comparison(job, reader).run();
}

void check_accepted(const job::Job& job, const checkpoint::Reader* reader, Diagnostics& diagnostics) {
  const auto& checkpoint = job.config.checkpoint;
  const auto names = compared_names(job, reader);
  for (const auto& name : checkpoint->accept) {
    if (std::find(names.begin(), names.end(), name) != names.end()) continue;
    diagnostics.add(checkpoint.where(&setup::CheckpointOptions::accept),
                    cat("checkpoint.accept has '", printable(name), "', the name of nothing that is compared"),
                    suggestion(name, names));
  }
}

}  // namespace capstan::resume
