#include "train/token_caches.h"

#include <capstan/base/files.h>
#include <capstan/base/paths.h>
#include <capstan/base/text.h>

#include <algorithm>
#include <array>
#include <filesystem>
#include <string_view>

#include "base/xxh64.h"
#include "job/data_plugins.h"
#include "plugin/guard.h"

namespace capstan::train {
namespace {

// The part of a file that a cache depends on: its bytes, since a file that is written again may have the size and the
// time of the old one. A file that is not there counts too.
std::string state_of(const std::filesystem::path& file) {
  if (!is_file(file)) return file.string() + ": absent\n";
  const MappedFile mapped(file);
  return cat(file.string(), ": ", mapped.size(), " bytes, XXH64 ", xxh64(mapped.data(), mapped.size()), "\n");
}

// The same of a split's files, which may be all those in a folder. Other options name folders that are written to.
std::string state_of_split(const std::filesystem::path& path) {
  if (!is_folder(path)) return state_of(path);
  std::string text;
  for (const auto& entry : entries_of(path)) text += state_of(entry);
  return text;
}

std::string options_text(const std::vector<config::Resolved>& options) {
  std::string text;
  for (const auto& option : options) {
    text += cat(option.spec.key, " = ", config::value_text(option.value), "\n");
    if (!option.spec.is_path) continue;
    const auto& key = option.spec.key;
    const auto state = key == "train" || key == "eval" || key == "eval_files" ? state_of_split : state_of;
    if (const auto* path = std::get_if<std::string>(&option.value)) text += state(*path);
    if (const auto* paths = std::get_if<std::vector<std::string>>(&option.value)) {
      for (const auto& path : *paths) text += state(path);
    }
  }
  return text;
}

std::string tokenizer_text(const job::Plugins& plugins, const tokenizer::Opened& tokenizer) {
  if (!tokenizer.opener) return tokenizer.object->name() + "\n";
  auto text = cat(tokenizer.plugin, "\n", state_of(tokenizer.library));
  if (plugins.tokenizer) text += options_text(plugins.tokenizer->options);
  for (const auto& file : tokenizer.files()) text += state_of(file);
  return text;
}

// The tables and texts of the model's folder, which a source may read: not its weights.
std::string folder_text(const std::string& folder) {
  constexpr std::array ends{".json", ".jinja", ".model", ".txt"};
  std::string text;
  if (folder.empty() || !is_folder(folder)) return text;
  for (const auto& entry : entries_of(folder)) {
    const auto end = std::filesystem::path(entry).extension().string();
    if (std::find(ends.begin(), ends.end(), end) != ends.end()) text += state_of(entry);
  }
  return text;
}

// What the tokens of a plugin's samples depend on, but for the split.
std::string key_of(const job::Plugins& plugins, const job::Samples& samples, const job::Made<data::Data>& data,
                   std::int64_t length) {
  return cat("capstan ", version(), "\n", data.name, "\n", state_of(data.file), options_text(data.options),
             tokenizer_text(plugins, samples.tokenizer), folder_text(samples.model_folder), "length ", length,
             ", vocabulary ", plugins.model_facts.vocab_size, "\n");
}

// Each source by itself, whatever it is mixed with, and both parts of one whose training split is shared.
std::vector<CachedSplit> splits_of_tables(const std::string& folder, const job::Plugins& plugins,
                                          const job::Samples& samples) {
  std::vector<CachedSplit> splits;
  for (const auto* table : job::shared_tables(plugins)) {
    if (!table->shared->uses_tokenizer()) continue;
    for (const auto& opened : table->shared->opened()) {
      const bool trains = opened.split == data::Split::train;
      const auto& set = opened.set;
      const auto split = cat(trains ? "train" : "eval", set.empty() ? "" : "-", set);
      auto name = cat(trains ? "training samples" : "evaluation samples", set.empty() ? "" : " ", set,
                      table->name.empty() ? "" : " of ", table->name);
      const auto key = cat(key_of(plugins, samples, table->made, opened.length), split,
                           plugin::guard(table->made.name, "content", [&] { return opened.source->content(); }));
      const auto view = opened.source;
      auto source = [view](job::Samples&) -> auto& { return view->source(); };
      splits.push_back({std::move(name), source, data::token_cache(folder, cat(table->made.name, "-", split), key)});
    }
  }
  return splits;
}

}  // namespace

std::vector<CachedSplit> cached_splits(const setup::Configuration& config, const job::Plugins& plugins,
                                       const job::Samples& samples) {
  std::vector<CachedSplit> splits;
  auto folder = plugins.data_parts.options->cache;
  if (!folder && !config.cache.empty()) folder = (std::filesystem::path(config.cache) / "tokens").string();
  if (!folder || !plugins.data || !plugins.data->object->uses_tokenizer()) return splits;
  if (!job::shared_tables(plugins).empty()) return splits_of_tables(*folder, plugins, samples);
  const auto& data = *plugins.data;
  const auto key = key_of(plugins, samples, data, samples.length);
  // Another number of ranks takes another part of the file.
  const auto part = [&](std::string_view split) {
    const bool grows = split == "train" && plugins.data_parts.options->samples_per_rank && samples.train;
    return grows ? cat(", samples ", samples.train->size()) : std::string();
  };
  const auto add = [&](const std::string& split, std::string name, const data::DataSource& its,
                       decltype(CachedSplit::source) source) {
    const auto content = plugin::guard(data.name, "content", [&] { return its.content(); });
    splits.push_back({std::move(name), std::move(source),
                      data::token_cache(*folder, cat(data.name, "-", split), cat(key, split, part(split), content))});
  };
  if (samples.train) {
    add(
        "train", "training samples", *samples.train, [](auto& all) -> auto& { return all.train; });
  }
  if (samples.eval) {
    add(
        "eval", "evaluation samples", *samples.eval, [](auto& all) -> auto& { return all.eval; });
  }
  for (std::size_t i = 0; i < samples.eval_sets.size(); ++i) {
    const auto& name = samples.eval_sets[i].name;
    add(
        "eval-" + name, cat("evaluation samples ", name),
        *samples.eval_sets[i].source, [i](auto& all) -> auto& { return all.eval_sets[i].source; });
  }
  return splits;
}

}  // namespace capstan::train
