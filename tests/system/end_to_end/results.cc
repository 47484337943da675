#include "results.h"

#include <ATen/ATen.h>
#include <capstan/base/files.h>
#include <capstan/base/text.h>

#include <cmath>
#include <limits>

#include "checkpoint/checkpoint.h"

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
    auto& list = json.contains("split")        ? metrics.evaluations
                 : json.contains("checkpoint") ? metrics.checkpoints
                                               : metrics.steps;
    list.push_back(std::move(json));
  }
  return metrics;
}

std::map<std::string, at::Tensor> read_weights(const fs::path& run) {
  const std::string kind = "model/";
  capstan::checkpoint::Reader reader(run / "weights");
  std::map<std::string, at::Tensor> weights;
  for (const auto& name : reader.tensors(kind)) {
    const auto& shape = reader.shape(name);
    auto& tensor = weights[name.substr(kind.size())];
    tensor = at::empty(shape, at::TensorOptions().dtype(capstan::checkpoint::torch_dtype(reader.dtype(name))));
    reader.read(name, capstan::layout::Box::whole(shape), tensor);
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
