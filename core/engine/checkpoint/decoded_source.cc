#include "checkpoint/decoded_source.h"

#include <ATen/ATen.h>
#include <capstan/base/error.h>
#include <capstan/base/text.h>
#include <capstan/nn/codec.h>

namespace capstan::checkpoint {

DecodedSource::DecodedSource(layout::Source& values, const std::vector<nn::Unit*>& units, c10::ScalarType compute,
                             std::string fix)
    : values_(values), compute_(compute), fix_(std::move(fix)) {
  for (const auto* unit : units) {
    for (const auto& weight : unit->weights()) {
      const auto* codec = weight->keeping_codec();
      if (!codec) continue;
      for (const auto& record : weight->records()) codecs_[record.name] = codec;
    }
  }
}

void DecodedSource::fill(const layout::Param& param, const layout::Box& box, const at::Tensor& out) {
  const auto found = codecs_.find(param.name);
  if (found == codecs_.end()) return values_.fill(param, box, out);
  const auto& codec = *found->second;
  if (!values_.has(param)) {
    throw Error(cat(param.name, " is kept by strategy '", codec.name(),
                    "', whose run began with random values: no file has them"),
                fix_);
  }
  nn::Codec::Extent extent;
  for (std::size_t d = 0; d < box.size.size(); ++d) {
    if (d < codec.stacked()) extent.matrices *= box.size[d];
    CAPSTAN_ASSERT(d < codec.stacked() || box.size[d] == param.shape[d]);
  }
  extent.elements = box.numel() / extent.matrices;
  const auto rounded = at::empty({extent.matrices, extent.elements}, at::TensorOptions().dtype(compute_));
  values_.fill(param, box, rounded);
  if (!nn::coded_in(values_, param, box).empty()) {  // its files have codes: these were decoded
    out.view({-1}).copy_(rounded.view({-1}));
    return;
  }
  const auto bytes = at::empty({codec.bytes(extent)}, at::TensorOptions().dtype(at::kByte));
  codec.encode(extent, rounded, bytes, {});
  codec.decode(extent, bytes, rounded);
  out.view({-1}).copy_(rounded.view({-1}));
}

}  // namespace capstan::checkpoint
