#include "observe/run_summary.h"

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <vector>

namespace capstan::observe {
namespace {

using Json = nlohmann::ordered_json;

std::string summary_text(const monitor::Summary& summary) {
  Json json{{"values", Json::array()}, {"texts", Json::array()}};
  for (const auto& [name, value] : summary.values) {
    if (std::isfinite(value)) json["values"].push_back({name, value});
  }
  for (const auto& [name, text] : summary.texts) json["texts"].push_back({name, text});
  return json.dump(-1, ' ', false, Json::error_handler_t::replace);
}

}  // namespace

monitor::Summary exchange_summary(const monitor::Summary& mine, comm::Communicator& communicator) {
  monitor::Summary all;
  std::vector<double> counts;
  for (const auto& text : communicator.exchange(summary_text(mine))) {
    const auto json = Json::parse(text);
    for (const auto& pair : json.at("values")) {
      const auto name = pair.at(0).get<std::string>();
      const auto found =
          std::find_if(all.values.begin(), all.values.end(), [&](const auto& value) { return value.first == name; });
      const auto at = static_cast<std::size_t>(found - all.values.begin());
      if (found == all.values.end()) {
        all.values.emplace_back(name, 0.0);
        counts.push_back(0);
      }
      all.values[at].second += pair.at(1).get<double>();
      ++counts[at];
    }
    for (const auto& pair : json.at("texts")) {
      const auto name = pair.at(0).get<std::string>();
      const bool known =
          std::any_of(all.texts.begin(), all.texts.end(), [&](const auto& other) { return other.first == name; });
      if (!known) all.texts.emplace_back(name, pair.at(1).get<std::string>());
    }
  }
  for (std::size_t i = 0; i < counts.size(); ++i) all.values[i].second /= counts[i];
  return all;
}

}  // namespace capstan::observe
