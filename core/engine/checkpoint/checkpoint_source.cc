#include <capstan/base/text.h>

#include "checkpoint/checkpoint.h"

namespace capstan::checkpoint {

RecordSource::RecordSource(Reader& reader, std::string prefix) : reader_(reader), prefix_(std::move(prefix)) {}

bool RecordSource::has(const layout::Param& param) const { return reader_.has(prefix_ + param.name); }

void RecordSource::check(const std::vector<const layout::Param*>& params, Diagnostics& diagnostics) const {
  const auto where = reader_.path().string();
  for (const auto* param : params) {
    if (!has(*param)) {
      diagnostics.add(where, cat("it has no record '", param->name, "'"), "load a checkpoint of the same model");
    } else if (const auto& shape = reader_.shape(prefix_ + param->name); shape != param->shape) {
      diagnostics.add(where,
                      cat("record '", param->name, "' has shape ", layout::shape_text(shape), ", the model's is ",
                          layout::shape_text(param->shape)),
                      "load it into a model of the sizes it was saved with");
    }
  }
}

void RecordSource::fill(const layout::Param& param, const layout::Box& box, const at::Tensor& out) {
  Diagnostics faults;
  check({&param}, faults);
  faults.throw_if_any();
  reader_.read(prefix_ + param.name, box, out);
}

}  // namespace capstan::checkpoint
