#include "selected_rows.h"

#include <capstan/base/counted.h>
#include <capstan/base/error.h>
#include <capstan/base/files.h>
#include <capstan/base/json.h>
#include <capstan/base/text.h>
#include <capstan/data_parts/derived_file.h>

#include <algorithm>
#include <cstring>

namespace jsonl {

using namespace capstan;

namespace {

using Places = std::vector<std::int64_t>;

// How many rows a condition is fulfilled by.
struct Tally {
  std::int64_t present = 0;
  std::int64_t fulfilled = 0;
};

void judge(const Filters& filters, const std::vector<Tally>& tallies, const Rows& file) {
  std::vector<std::string> said;
  for (std::size_t i = 0; i < tallies.size(); ++i) {
    const auto& condition = filters.conditions()[i];
    said.push_back(cat('"', condition.text, "\" is fulfilled by ", thousands(tallies[i].fulfilled)));
    if (tallies[i].present > 0) continue;
    throw Error(cat(filters.name(), " reads '", condition.column, "', and no row of ", file.path(), " has it"),
                "name a column of the file", filters.where());
  }
  throw Error(
      cat(filters.name(), " leaves none of the ", counted(file.size(), "row"), " of ", file.path(), ": ", join(said)),
      "ask for less", filters.where());
}

Places places_of(const Filters& filters, const Rows& file) {
  const auto& conditions = filters.conditions();
  std::vector<Tally> tallies(conditions.size());
  Places kept;
  for (std::int64_t row = 0; row < file.size(); ++row) {
    const auto json = try_parse_json(file.line(row));
    bool stays = true;
    // What is no object is named by who reads the row.
    for (std::size_t i = 0; json.is_object() && i < conditions.size(); ++i) {
      const auto* value = value_in(json, conditions[i].column);
      const bool is_fulfilled = holds(conditions[i], value, file.where(row));
      if (value != nullptr) ++tallies[i].present;
      if (is_fulfilled) ++tallies[i].fulfilled;
      stays = stays && is_fulfilled;
    }
    if (stays) kept.push_back(row);
  }
  const bool is_known = std::all_of(tallies.begin(), tallies.end(), [](const Tally& one) { return one.present > 0; });
  if ((!is_known && file.size() > 0) || kept.empty()) judge(filters, tallies, file);
  return kept;
}

Places read_places(const std::filesystem::path& path) {
  const auto bytes = read_file(path);
  if (bytes.empty() || bytes.size() % sizeof(Places::value_type) != 0)
    throw Error("it is not what was written into it", "delete it: it is made again", path.string());
  Places places(bytes.size() / sizeof(Places::value_type));
  std::memcpy(places.data(), bytes.data(), bytes.size());
  return places;
}

}  // namespace

std::shared_ptr<SelectedRows> rows_kept_by(const Filters& filters, std::shared_ptr<const Rows> file,
                                           const KeptIn& kept_in) {
  constexpr std::size_t little = std::size_t{8} << 20;
  std::string why = "kept rows 1\n";
  for (const auto& condition : filters.conditions()) why += condition.text + "\n";
  std::size_t bytes = 0;
  for (std::int64_t row = 0; row < file->size(); ++row) bytes += file->line(row).size();
  const auto folder = kept_in.folder.empty() ? data::derived_folder(data::process_environment()) : kept_in.folder;
  Places places;
  if (bytes < little || folder.empty()) {
    places = places_of(filters, *file);
  } else {
    const auto name = std::filesystem::path(file->path()).stem().string() + ".rows";
    places = read_places(data::derive({folder, name, file->key() + why, kept_in.advice}, [&](const std::filesystem::
                                                                                                 path& unfinished) {
      const auto made = places_of(filters, *file);
      write_file(unfinished, {reinterpret_cast<const char*>(made.data()), made.size() * sizeof(Places::value_type)});
    }));
  }
  return std::make_shared<SelectedRows>(std::move(file), std::move(places), std::move(why));
}

}  // namespace jsonl
