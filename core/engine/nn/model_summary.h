#pragma once
#include <capstan/base/export.h>
#include <capstan/nn/model.h>

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

CAPSTAN_BEGIN_NAMESPACE
namespace nn {

/// What a model is made of, in elements of whole (logical) tensors. A weight that units share is counted with the
/// first of them.
struct ModelSummary {
  /// Neighbouring units of one kind ("blocks") that are alike.
  struct Part {
    std::string name;
    std::int64_t units = 0;
    std::int64_t parameters = 0;  ///< in each
  };
  std::vector<Part> parts;
  std::int64_t parameters = 0;
  std::int64_t trainable = 0;

  /// "1,000 parameters (10 trainable) = embedding 400 + 2 blocks x 200 + head 200".
  std::string text() const;
};

ModelSummary summarise(const std::vector<std::unique_ptr<Unit>>& units);
/// The same of the parts that `rank` computes with, as placement has laid them.
ModelSummary summarise(const std::vector<std::unique_ptr<Unit>>& units, const layout::Mesh& mesh, int rank);

}  // namespace nn
CAPSTAN_END_NAMESPACE
