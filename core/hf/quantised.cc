#include "hf/quantised.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>
#include <capstan/base/error.h>
#include <capstan/base/files.h>
#include <capstan/base/json.h>
#include <capstan/base/paths.h>
#include <capstan/base/text.h>
#include <capstan/layout/source.h>

#include <algorithm>
#include <utility>

#include "hf/quantization.h"

namespace capstan::hf {
namespace {

using checkpoint::Dtype;
using layout::Box;
using layout::Shape;

constexpr const char* scale_end = "_scale_inv";
constexpr std::int64_t chunk = std::int64_t{1} << 20;  // elements that are decoded at once
const std::vector<std::string> state_ends{".quant_state.bitsandbytes__nf4", ".quant_state.bitsandbytes__fp4"};

std::int64_t ceil_of(std::int64_t n, std::int64_t of) { return (n + of - 1) / of; }

// A tensor as it is in its file. It may only be read, while the file is open.
at::Tensor as_it_is(const SafetensorsFolder& tensors, const std::string& name) {
  const auto* file = tensors.find(name);
  CAPSTAN_ASSERT(file);
  const auto& info = file->info(name);
  if (!file->is_whole(info)) {
    throw Error(cat("tensor '", name, "' is cut off"), "the file is damaged: copy or download it again",
                file->path().string());
  }
  auto* bytes = const_cast<std::byte*>(file->bytes(name));
  return at::from_blob(bytes, info.shape, at::TensorOptions(checkpoint::torch_dtype(info.dtype)));
}

// Numbers in float32, wherever they lie in the file. A byte is a power of two (MX: 2^(byte - 127)), as F8_E8M0 is.
at::Tensor read_numbers(const SafetensorsFolder& tensors, const std::string& name) {
  const auto* file = tensors.find(name);
  const auto& info = file->info(name);
  auto out = at::empty(info.shape, at::kFloat);
  file->read(name, Box::whole(info.shape), out);
  return info.dtype == Dtype::u8 ? out.sub_(127).exp2_() : out;
}

Json state_of(const SafetensorsFolder& tensors, const std::string& name) {
  for (const auto& end : state_ends) {
    if (!tensors.find(name + end)) continue;
    const auto bytes = as_it_is(tensors, name + end);
    return try_parse_json(std::string_view(static_cast<const char*>(bytes.const_data_ptr()), bytes.nbytes()));
  }
  return {};
}

}  // namespace

struct Quantised::FourBits {
  Shape shape;
  std::int64_t block = 0;
  at::Tensor codes;    ///< [elements / 2] uint8
  at::Tensor numbers;  ///< [16] float32
  at::Tensor largest;  ///< [blocks] float32
};

Quantised::Quantised(const std::filesystem::path& folder, const SafetensorsFolder& tensors) : tensors_(&tensors) {
  const auto file = folder / "config.json";
  const auto said = is_there(file) ? quantization_config(try_parse_json(read_file(file))) : Json();
  if (!is_decodable(said)) return;
  const auto method = method_of(said);
  method_ = method == "fp8" ? Method::fp8 : method == "bitsandbytes" ? Method::four_bits : Method::none;
  // transformers' FineGrainedFP8Config takes such blocks where the file says none; null: a scale for each matrix.
  const auto block = said.value("weight_block_size", Json::array({128, 128}));
  if (block.is_array() && block.size() == 2) block_ = block.get<std::vector<std::int64_t>>();
}

std::string Quantised::words() const {
  if (method_ == Method::four_bits) return "in 4 bits (bitsandbytes)";
  return block_.size() == 2 ? cat("in FP8 with a scale for each block of ", block_[0], " x ", block_[1])
                            : "in FP8 with a scale for each matrix";
}

bool Quantised::is_coded(const std::string& name) const {
  const auto* file = method_ == Method::none ? nullptr : tensors_->find(name);
  if (!file) return false;
  if (method_ == Method::fp8) return file->info(name).dtype == Dtype::f8_e4m3;
  return std::any_of(state_ends.begin(), state_ends.end(),
                     [&](const auto& end) { return tensors_->find(name + end) != nullptr; });
}

std::optional<Shape> Quantised::shape_of(const std::string& name) const {
  if (!is_coded(name)) return {};
  if (method_ == Method::fp8) return tensors_->find(name)->info(name).shape;
  const auto state = state_of(*tensors_, name);
  const auto shape = state.is_object() ? state.value("shape", Json()) : Json();
  const auto is_size = [](const Json& size) {
    constexpr std::int64_t most = std::int64_t{1} << 31;
    return size.is_number_integer() && size.get<std::int64_t>() > 0 && size.get<std::int64_t>() < most;
  };
  if (!shape.is_array() || shape.size() != 2 || !std::all_of(shape.begin(), shape.end(), is_size)) return Shape{};
  return shape.get<Shape>();
}

std::string Quantised::matrix_of(const std::string& name) const {
  using Ends = std::vector<std::pair<std::string, std::string>>;  // the tensor's, and its matrix'
  static const Ends of_fp8{{scale_end, ""}, {".activation_scale", ".weight"}, {"_activation_scale", ""}};
  static const Ends of_four_bits{{".absmax", ""},           {".quant_map", ""},  {".nested_absmax", ""},
                                 {".nested_quant_map", ""}, {state_ends[0], ""}, {state_ends[1], ""}};
  if (method_ == Method::none) return {};
  for (const auto& [end, own] : method_ == Method::fp8 ? of_fp8 : of_four_bits) {
    auto matrix = name.ends_with(end) ? name.substr(0, name.size() - end.size()) + own : "";
    if (!matrix.empty() && is_coded(matrix)) return matrix;
  }
  return {};
}

std::string Quantised::fp8_fault(const std::string& name) const {
  const auto scales = name + scale_end;
  const auto* file = tensors_->find(scales);
  if (!file) {
    const bool is_others = tensors_->find(name + "_scale") != nullptr;
    return cat(name, " has FP8 codes, and there is no ", scales,
               is_others ? " but a weight_scale, which is another program's form" : "");
  }
  const auto& shape = tensors_->find(name)->info(name).shape;
  const auto& given = file->info(scales).shape;
  if (layout::numel(given) == 1) return {};
  if (block_.empty() || shape.size() != 2 || std::min(block_[0], block_[1]) < 1)
    return cat(scales, " is ", layout::shape_text(given), ", and config.json says no weight_block_size");
  const Shape needed{ceil_of(shape[0], block_[0]), ceil_of(shape[1], block_[1])};
  if (given == needed) return {};
  return cat(scales, " is ", layout::shape_text(given), ", and ", layout::shape_text(shape), " in blocks of ",
             block_[0], " x ", block_[1], " needs ", layout::shape_text(needed));
}

std::string Quantised::four_bit_fault(const std::string& name) const {
  const auto shape = shape_of(name);
  const auto state = state_of(*tensors_, name);
  const auto size = [&](const char* key) {
    const auto said = state.is_object() ? state.value(key, Json()) : Json();
    return said.is_number_integer() ? said.get<std::int64_t>() : 0;
  };
  const auto block = size("blocksize"), group = size("nested_blocksize");
  if (!shape || shape->empty() || block < 1) return cat(name, " has a state that says no shape and blocksize");
  const auto is = [&](const std::string& end, Dtype dtype, std::int64_t count) {
    const auto* file = tensors_->find(name + end);
    if (!file) return false;
    const auto& info = file->info(name + end);
    return info.dtype == dtype && layout::numel(info.shape) == count;
  };
  const auto blocks = ceil_of(layout::numel(*shape), block);
  const bool has_codes = is("", Dtype::u8, ceil_of(layout::numel(*shape), 2)) && is(".quant_map", Dtype::f32, 16);
  const auto has_nested = [&] {
    return group > 0 && is(".absmax", Dtype::u8, blocks) && is(".nested_absmax", Dtype::f32, ceil_of(blocks, group)) &&
           is(".nested_quant_map", Dtype::f32, 256) && state.value("nested_offset", Json()).is_number();
  };
  const bool is_nested = tensors_->find(name + ".nested_absmax") != nullptr;
  if (has_codes && (is_nested ? has_nested() : is(".absmax", Dtype::f32, blocks))) return {};
  return cat("the tensors of ", name, " do not have the sizes of its state");
}

std::string Quantised::fault_of(const std::string& name) const {
  return method_ == Method::fp8 ? fp8_fault(name) : four_bit_fault(name);
}

Quantised::FourBits Quantised::four_bits(const std::string& name) const {
  const auto state = state_of(*tensors_, name);
  FourBits out;
  out.shape = *shape_of(name);
  out.block = state.at("blocksize").get<std::int64_t>();
  out.codes = as_it_is(*tensors_, name).view({-1});
  out.numbers = read_numbers(*tensors_, name + ".quant_map").view({-1});
  if (!tensors_->find(name + ".nested_absmax")) {
    out.largest = read_numbers(*tensors_, name + ".absmax").view({-1});
    return out;
  }
  const auto codes = as_it_is(*tensors_, name + ".absmax").view({-1}).to(at::kInt);
  const auto group = state.at("nested_blocksize").get<std::int64_t>();
  const auto groups = read_numbers(*tensors_, name + ".nested_absmax").view({-1});
  const auto scales = groups.repeat_interleave(group).narrow(0, 0, codes.numel());
  const auto map = read_numbers(*tensors_, name + ".nested_quant_map").view({-1});
  out.largest = map.index_select(0, codes).mul_(scales).add_(state.at("nested_offset").get<double>());
  return out;
}

Quantised::Rows Quantised::fp8_rows(const std::string& name) const {
  const auto whole = as_it_is(*tensors_, name);
  const auto codes = whole.view({whole.size(0), -1});
  const auto scales = read_numbers(*tensors_, name + scale_end);
  return [codes, scales, block = block_](std::int64_t first, std::int64_t rows) {
    const auto part = codes.narrow(0, first, rows).to(at::kFloat);
    if (scales.numel() == 1) return part * scales.item<float>();
    const auto row = at::arange(first, first + rows).floor_divide_(block[0]);
    return part * scales.index_select(0, row).repeat_interleave(block[1], 1).narrow(1, 0, part.size(1));
  };
}

Quantised::Rows Quantised::four_bit_rows(const std::string& name) const {
  return [four = four_bits(name)](std::int64_t first, std::int64_t rows) {
    const auto columns = layout::numel(four.shape) / four.shape[0];
    const auto begin = first * columns, end = (first + rows) * columns;
    const auto bytes = four.codes.narrow(0, begin / 2, ceil_of(end, 2) - begin / 2);
    const auto codes = at::stack({bytes.bitwise_right_shift(4), bytes.bitwise_and(15)}, 1).view({-1});
    const auto own = codes.narrow(0, begin % 2, end - begin).to(at::kInt);
    const auto block = at::arange(begin, end).floor_divide_(four.block);
    return four.numbers.index_select(0, own).mul_(four.largest.index_select(0, block)).view({rows, columns});
  };
}

void Quantised::read(const std::string& name, const Shape& shape, const Box& box, const at::Tensor& out) const {
  if (auto fault = fault_of(name); !fault.empty()) {
    throw Error(fault, "the folder is damaged, or of another kind: download it again",
                tensors_->find(name)->path().string());
  }
  if (box.empty()) return;
  const at::NoGradGuard no_grad;
  const auto own = *shape_of(name);
  const auto rows = method_ == Method::fp8 ? fp8_rows(name) : four_bit_rows(name);
  if (shape.size() != 2 || shape != own) {
    out.copy_(layout::view_of(rows(0, own.at(0)).view(shape), box));
    return;
  }
  const auto step = std::max<std::int64_t>(1, chunk / shape[1]);
  for (std::int64_t done = 0; done < box.size[0]; done += step) {
    const auto count = std::min(step, box.size[0] - done);
    const auto part = rows(box.offset[0] + done, count).narrow(1, box.offset[1], box.size[1]);
    out.narrow(0, done, count).copy_(part);
  }
}

}  // namespace capstan::hf
