#include <capstan/base/error.h>
#include <capstan/base/text.h>

#include "record/safetensors_header.h"

namespace capstan::checkpoint {

MappedTensors::MappedTensors(std::filesystem::path path) : path_(std::move(path)), file_(path_) {
  Diagnostics faults;
  parse(faults);
  faults.throw_if_any();
}

MappedTensors::MappedTensors(std::filesystem::path path, Diagnostics& faults) : path_(std::move(path)), file_(path_) {
  parse(faults);
}

void MappedTensors::parse(Diagnostics& faults) {
  auto header = parse_header(path_.string(), file_.data(), file_.size(), faults);
  data_ = file_.data() + header.data_begin;
  tensors_ = std::move(header.tensors);
  metadata_ = std::move(header.metadata);
}

const TensorInfo& MappedTensors::info(const std::string& name) const {
  const auto found = tensors_.find(name);
  if (found != tensors_.end()) return found->second;
  std::vector<std::string> names;
  for (const auto& item : tensors_) names.push_back(item.first);
  const auto nearest = nearest_name(name, names);
  throw Error(cat("it has no tensor '", name, "'"), nearest.empty() ? "" : cat("did you mean '", nearest, "'?"),
              path_.string());
}

}  // namespace capstan::checkpoint
