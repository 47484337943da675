#pragma once
// What a run left in its folder, read as other programs would.
#include <capstan/base/json.h>

#include <ATen/core/Tensor.h>

#include <filesystem>
#include <map>
#include <string>
#include <vector>

namespace end_to_end {

using capstan::Json;

Json read_json(const std::filesystem::path& file);

/// metrics.jsonl: the objects of steps, of evaluations and of checkpoints, each in the order of the file. Every line
/// must be whole.
struct Metrics {
  std::vector<Json> steps;
  std::vector<Json> evaluations;
  std::vector<Json> checkpoints;
  /// A number of every step: "loss".
  std::vector<double> all(const std::string& key) const;
};

Metrics read_metrics(const std::filesystem::path& run);

/// The final weights, whole, by record name, whatever the layout that saved them; hashes are checked.
std::map<std::string, at::Tensor> read_weights(const std::filesystem::path& run);

/// Names, and every bit of every value.
bool bit_equal(const std::map<std::string, at::Tensor>& a, const std::map<std::string, at::Tensor>& b);

/// The largest |a-b|/|b| of two series of the same length; infinite when lengths differ.
double distance(const std::vector<double>& a, const std::vector<double>& b);

}  // namespace end_to_end
