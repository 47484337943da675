#include "hf/mxfp4.h"

#include <ATen/ATen.h>
#include <capstan/base/error.h>
#include <capstan/base/text.h>

#include <array>
#include <cmath>
#include <numeric>

namespace capstan::hf {
namespace {

using layout::Box;
using layout::Shape;

constexpr std::int64_t group = 32, bytes_of_group = group / 2;

constexpr std::array<float, 16> numbers{0.0F,  0.5F,  1.0F,  1.5F,  2.0F,  3.0F,  4.0F,  6.0F,
                                        -0.0F, -0.5F, -1.0F, -1.5F, -2.0F, -3.0F, -4.0F, -6.0F};

// blocks [.., 16] and scales [..], contiguous -> [.., 32].
at::Tensor decoded(const at::Tensor& blocks, const at::Tensor& scales) {
  const auto groups = scales.numel();
  auto values = at::empty({groups, group}, at::kFloat);
  const auto* codes = blocks.const_data_ptr<std::uint8_t>();
  const auto* exponents = scales.const_data_ptr<std::uint8_t>();
  auto* out = values.data_ptr<float>();
  for (std::int64_t g = 0; g < groups; ++g) {
    const float scale = std::ldexp(1.0F, static_cast<int>(exponents[g]) - 127);
    for (std::int64_t i = 0; i < bytes_of_group; ++i) {
      const auto two = *codes++;
      *out++ = numbers[two & 15U] * scale;
      *out++ = numbers[two >> 4U] * scale;
    }
  }
  return values;
}

// The record's dimensions as the codes have them: [experts, out …, in].
std::vector<std::int64_t> order_of(const layout::FileTensor& place, std::size_t dims) {
  auto order = place.order;
  if (order.empty()) {
    order.resize(dims);
    std::iota(order.begin(), order.end(), 0);
  }
  order.push_back(order.at(1));
  order.erase(order.begin() + 1);
  return order;
}

Shape in_order(const Shape& shape, const std::vector<std::int64_t>& order) {
  Shape out;
  for (const auto d : order) out.push_back(shape.at(static_cast<std::size_t>(d)));
  return out;
}

// All of a file's tensor, as bytes that may only be read, in this shape.
at::Tensor bytes_of(const checkpoint::SafetensorsFile& file, const std::string& name, const Shape& shape) {
  return at::from_blob(const_cast<std::byte*>(file.bytes(name)), shape, at::TensorOptions(at::kByte));
}

// The numbers of a place in a box of matrices, row by row.
std::vector<std::int64_t> place_in(const Box& box, std::size_t stacked, std::int64_t index) {
  std::vector<std::int64_t> place(stacked);
  for (auto d = stacked; d-- > 0;) {
    place[d] = box.offset[d] + index % box.size[d];
    index /= box.size[d];
  }
  return place;
}

}  // namespace

std::optional<Mxfp4Tensor> Mxfp4Tensor::find(const SafetensorsFolder& folder, const std::string& name) {
  Mxfp4Tensor found;
  found.name_ = name;
  found.blocks_ = folder.find(name + "_blocks");
  found.scales_ = folder.find(name + "_scales");
  if (!found.blocks_ || !found.scales_) return {};
  return found;
}

std::string Mxfp4Tensor::fault(const Shape& shape) const {
  const auto names = parts();
  const auto &blocks = blocks_->info(names[0]), &scales = scales_->info(names[1]);
  if (shape.size() != 3 || shape[1] % group != 0)
    return cat(name_, " is in MXFP4, which a tensor ", layout::shape_text(shape), " cannot be");
  const Shape of_scales{shape[0], shape[2], shape[1] / group};
  const Shape of_blocks{shape[0], shape[2], shape[1] / group, bytes_of_group};
  const auto other = [](const std::string& name, const checkpoint::TensorInfo& info, const Shape& needed) {
    return cat(name, " is ", layout::shape_text(info.shape), " of ", dtype_name(info.dtype), ", the model needs ",
               layout::shape_text(needed), " of U8");
  };
  if (blocks.dtype != checkpoint::Dtype::u8 || blocks.shape != of_blocks) return other(names[0], blocks, of_blocks);
  const bool has_exponents = scales.dtype == checkpoint::Dtype::u8 || scales.dtype == checkpoint::Dtype::f8_e8m0;
  if (!has_exponents || scales.shape != of_scales) return other(names[1], scales, of_scales);
  return {};
}

void Mxfp4Tensor::read(const layout::FileTensor& place, const Shape& record, const Box& box,
                       const at::Tensor& out) const {
  const auto order = order_of(place, record.size());
  const auto shape = in_order(record, order);
  const Box in_codes{in_order(box.offset, order), in_order(box.size, order)};
  const auto begin = in_codes.offset.back(), size = in_codes.size.back();
  const auto first = begin / group, last = (begin + size + group - 1) / group;
  const auto to = out.permute(order);
  // One expert's numbers are in memory at a time, as float32.
  auto of_scales = in_codes;
  of_scales.offset.back() = first;
  of_scales.size.back() = last - first;
  of_scales.size.front() = 1;
  auto scales_shape = shape;
  scales_shape.back() /= group;
  for (std::int64_t e = 0; e < in_codes.size.front(); ++e) {
    of_scales.offset.front() = in_codes.offset.front() + e;
    auto of_blocks = of_scales;
    of_blocks.offset.push_back(0);
    of_blocks.size.push_back(bytes_of_group);
    auto blocks_shape = scales_shape;
    blocks_shape.push_back(bytes_of_group);
    const auto blocks = at::empty(of_blocks.size, at::kByte);
    const auto scales = at::empty(of_scales.size, checkpoint::torch_dtype(scales_->info(name_ + "_scales").dtype));
    blocks_->read(name_ + "_blocks", blocks_shape, of_blocks, blocks);
    scales_->read(name_ + "_scales", scales_shape, of_scales, scales);
    auto values_shape = of_scales.size;
    values_shape.back() *= group;
    const auto values = decoded(blocks, scales.view(at::kByte)).view(values_shape);
    to.narrow(0, e, 1).copy_(values.narrow(-1, begin - first * group, size));
  }
}

std::vector<nn::CodedMatrix> Mxfp4Tensor::matrices(const layout::FileTensor& place, const Shape& record, const Box& box,
                                                   std::size_t stacked) const {
  const auto order = order_of(place, record.size());
  const auto dims = record.size() - 1;
  CAPSTAN_ASSERT(stacked + 1 == dims && order.back() == static_cast<std::int64_t>(dims));
  std::vector<std::int64_t> back(dims + 1);
  for (std::size_t d = 0; d <= dims; ++d) back[static_cast<std::size_t>(order[d])] = static_cast<std::int64_t>(d);
  auto shape = in_order(record, order);
  shape.back() /= group;
  const auto scales = bytes_of(*scales_, name_ + "_scales", shape).permute(back);
  shape.push_back(bytes_of_group);
  back.push_back(static_cast<std::int64_t>(dims) + 1);
  const auto blocks = bytes_of(*blocks_, name_ + "_blocks", shape).permute(back);
  std::int64_t count = 1;
  for (std::size_t d = 0; d < stacked; ++d) count *= box.size[d];
  std::vector<nn::CodedMatrix> all;
  for (std::int64_t i = 0; i < count; ++i) {
    auto of_blocks = blocks, of_scales = scales;
    for (const auto at : place_in(box, stacked, i)) {
      of_blocks = of_blocks.select(0, at);
      of_scales = of_scales.select(0, at);
    }
    all.push_back({name_,
                   blocks_->path().string(),
                   {record[dims - 1], record[dims]},
                   {{"_blocks", of_blocks}, {"_scales", of_scales}}});
  }
  return all;
}

}  // namespace capstan::hf
