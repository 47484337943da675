#include "resume/adapters.h"

#include <capstan/base/json.h>
#include <capstan/base/text.h>

#include <optional>

#include "job/resume.h"
#include "job/sections.h"

namespace capstan::resume {
namespace {

std::optional<std::int64_t> saved_rank(const checkpoint::Reader& reader, const nn::Adapter& adapter) {
  const auto& down = adapter.down->records().front();
  const auto tensor = job::saved_name("model", down.name, 0);
  if (!reader.has(tensor)) return {};
  const auto& shape = reader.shape(tensor);
  return shape.size() == down.shape.size() ? std::optional(shape[adapter.stacked]) : std::nullopt;
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

std::set<std::string> check_adapters(const checkpoint::Reader& reader, const std::vector<nn::Unit*>& units,
                                     Diagnostics& diagnostics) {
  const auto where = reader.path().string();
  const auto saved = reader.has_section(job::sections::adapters) ? Json::parse(reader.section(job::sections::adapters))
                                                                 : Json::object();
  std::set<std::string> of_other_rank;
  bool is_scaled_alike = true;
  for (const auto* adapter : job::adapters_of(units)) {
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
    if (found == saved.end() || *found == job::scale_of(*adapter) || !is_scaled_alike) continue;
    is_scaled_alike = false;
    diagnostics.add(where,
                    cat("its adapters are scaled by ", settings(adapter->table, *found, job::scale_of(*adapter)),
                        ", the run's by ", settings(adapter->table, job::scale_of(*adapter), *found),
                        ": they would add another multiple than was trained"),
                    cat("set ", settings(adapter->table, *found, job::scale_of(*adapter)), ", or start a new run"));
  }
  return of_other_rank;
}

}  // namespace capstan::resume
