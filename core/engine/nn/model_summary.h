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

/// What the rows of attention's table are asked about, before there are batches.
struct PlannedAttention {
  at::Tensor like;          ///< has the dtype that units compute in; on the meta device where a GPU computes
  std::int64_t length = 0;  ///< tokens of a row
  bool trains = false;
  bool is_packed = false;  ///< rows hold several samples
};

/// Which rows serve the layers, where the plain one serves any, and why the others do not: "attention: SDPA in 26
/// layers, plain (a soft cap: no faster row has it) in 6 layers". Empty where faster ones serve all.
std::string attention_text(const std::vector<std::unique_ptr<Unit>>& units, const PlannedAttention& planned);

}  // namespace nn
CAPSTAN_END_NAMESPACE
