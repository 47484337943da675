#include "results.h"

#include <ATen/ATen.h>
#include <capstan/base/files.h>
#include <capstan/base/text.h>
#include <capstan/checkpoint/boxes.h>

#include <cmath>
#include <limits>

namespace end_to_end {

namespace fs = std::filesystem;

Json read_json(const fs::path& file) { return Json::parse(capstan::read_file(file)); }

std::vector<double> Metrics::all(const std::string& key) const {
  std::vector<double> out;
  for (const auto& step : steps) out.push_back(step.at(key).get<double>());
  return out;
}

Metrics read_metrics(const fs::path& run) {
  const auto text = capstan::read_file(run / "metrics.jsonl");
  if (text.empty() || text.back() != '\n') throw std::runtime_error("metrics.jsonl does not end with a whole line");
  Metrics metrics;
  for (const auto& line : capstan::split(text.substr(0, text.size() - 1), '\n')) {
    auto json = Json::parse(line);
    (json.contains("split") ? metrics.evaluations : metrics.steps).push_back(std::move(json));
  }
  return metrics;
}

std::map<std::string, at::Tensor> read_weights(const fs::path& run) {
  const auto manifest = read_json(run / "weights" / "manifest.json");
  capstan::checkpoint::BoxesSource source(run / "weights");
  std::map<std::string, at::Tensor> weights;
  for (const auto& [name, record] : manifest.at("records").items()) {
    capstan::layout::Param param;
    param.name = name;
    param.shape = record.at("shape").get<std::vector<std::int64_t>>();
    auto& tensor = weights[name];
    tensor = at::empty(param.shape, record.at("dtype") == "F64" ? at::kDouble : at::kFloat);
    source.fill(param, capstan::layout::Box::whole(param.shape), tensor);
  }
  return weights;
}

bool bit_equal(const std::map<std::string, at::Tensor>& a, const std::map<std::string, at::Tensor>& b) {
  if (a.size() != b.size()) return false;
  for (const auto& [name, tensor] : a) {
    const auto other = b.find(name);
    if (other == b.end() || !at::equal(tensor, other->second)) return false;
  }
  return true;
}

double distance(const std::vector<double>& a, const std::vector<double>& b) {
  if (a.size() != b.size()) return std::numeric_limits<double>::infinity();
  double largest = 0;
  for (std::size_t i = 0; i < a.size(); ++i) largest = std::max(largest, std::abs(a[i] - b[i]) / std::abs(b[i]));
  return largest;
}

}  // namespace end_to_end
