#include "job/adapter_state.h"

#include <capstan/base/json.h>
#include <capstan/base/text.h>

#include <optional>

#include "job/resume.h"

namespace capstan::job {
namespace {

constexpr const char* adapters_key = "adapters";

std::optional<std::int64_t> saved_rank(const checkpoint::Reader& reader, const nn::Adapter& adapter) {
  const auto& down = adapter.down->records().front();
  const auto tensor = saved_name("model", down.name, 0);
  if (!reader.has(tensor)) return {};
  const auto& shape = reader.shape(tensor);
  return shape.size() == down.shape.size() ? std::optional(shape[adapter.stacked]) : std::nullopt;
}

Json scale_of(const nn::Adapter& adapter) {
  return {{"alpha", adapter.alpha}, {"rank_stabilised", adapter.rank_stabilised}};
}

// "TABLE.alpha = 8.0 and TABLE.rank_stabilised = true": what is another in `from`.
std::string settings(const std::string& table, const Json& from, const Json& other) {
  std::vector<std::string> list;
  for (const auto& [key, value] : from.items()) {
    if (!other.contains(key) || other.at(key) != value) list.push_back(cat(table, ".", key, " = ", value.dump()));
  }
  return join(list, " and ");
}

}  // namespace

std::vector<const nn::Adapter*> adapters_of(const std::vector<nn::Unit*>& units) {
  std::vector<const nn::Adapter*> adapters;
  for (const auto* unit : units) {
    for (const auto& adapter : unit->adapters()) adapters.push_back(&adapter);
  }
  return adapters;
}

std::string adapters_section(const std::vector<nn::Unit*>& units) {
  Json json;
  for (const auto* adapter : adapters_of(units)) json[adapter->module] = scale_of(*adapter);
  return json.is_null() ? std::string() : json.dump();
}

std::set<std::string> check_adapters(const checkpoint::Reader& reader, const std::vector<nn::Unit*>& units,
                                     Diagnostics& diagnostics) {
  const auto where = reader.path().string();
  const auto saved = reader.has_section(adapters_key) ? Json::parse(reader.section(adapters_key)) : Json::object();
  std::set<std::string> of_other_rank;
  bool is_scaled_alike = true;
  for (const auto* adapter : adapters_of(units)) {
    const auto rank = saved_rank(reader, *adapter);
    if (rank && *rank != adapter->rank) {
      if (of_other_rank.empty()) {
        diagnostics.add(where, cat("its adapters have rank ", *rank, ", the run's have ", adapter->rank),
                        cat("set ", adapter->table, ".rank = ", *rank, ", or start a new run"));
      }
      for (const auto* weight : {&adapter->down, &adapter->up}) {
        for (const auto& record : (*weight)->records()) of_other_rank.insert(record.name);
      }
      continue;  // alpha follows from the rank where it is not set
    }
    const auto found = saved.find(adapter->module);
    if (found == saved.end() || *found == scale_of(*adapter) || !is_scaled_alike) continue;
    is_scaled_alike = false;
    diagnostics.add(
        where,
        cat("its adapters are scaled by ", settings(adapter->table, *found, scale_of(*adapter)), ", the run's by ",
            settings(adapter->table, scale_of(*adapter), *found), ": they would add another multiple than was trained"),
        cat("set ", settings(adapter->table, *found, scale_of(*adapter)), ", or start a new run"));
  }
  return of_other_rank;
}

}  // namespace capstan::job
