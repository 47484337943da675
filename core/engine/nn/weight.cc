#include <capstan/base/error.h>
#include <capstan/base/text.h>
#include <capstan/nn/codec.h>
#include <capstan/nn/weight.h>

#include <algorithm>
#include <numeric>

namespace capstan::nn {

Weight::Weight(std::vector<layout::Param> records) : records_(std::move(records)) {
  CAPSTAN_ASSERT(!records_.empty());
  for (const auto& record : records_) {
    CAPSTAN_ASSERT(record.trainable == records_.front().trainable);
    CAPSTAN_ASSERT(record.decay == records_.front().decay);
    CAPSTAN_ASSERT(record.shape.size() == records_.front().shape.size());
  }
}

std::string Weight::name() const {
  const auto first = split(records_.front().name, '.');
  auto parts = first;
  for (std::size_t i = 1; i < records_.size(); ++i) {
    const auto other = split(records_[i].name, '.');
    for (std::size_t p = 0; p < std::min(first.size(), other.size()); ++p) {
      if (other[p] != first[p]) parts[p] += "+" + other[p];
    }
  }
  return join(parts, ".");
}

std::int64_t Weight::numel() const {
  std::int64_t sum = 0;
  for (const auto& record : records_) {
    sum += std::accumulate(record.shape.begin(), record.shape.end(), std::int64_t{1}, std::multiplies<>());
  }
  return sum;
}

Codec* Weight::keeping_codec() const {
  return codec_ && !trainable() && codec_->capabilities().packs ? codec_.get() : nullptr;
}

Codec* Weight::gathering_codec() const {
  return codec_ && trainable() && codec_->capabilities().gathers ? codec_.get() : nullptr;
}

const at::Tensor& Weight::value() const {
  CAPSTAN_ASSERT(value_.defined());
  return value_;
}

layout::Param record(std::string name, std::vector<std::int64_t> shape, layout::Init init, bool decay) {
  layout::Param param;
  param.name = std::move(name);
  param.shape = std::move(shape);
  param.init = init;
  param.decay = decay;
  return param;
}

}  // namespace capstan::nn
