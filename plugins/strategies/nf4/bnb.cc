// bitsandbytes' tensors of a matrix in NF4 with double quantisation (0.43 to 0.50; QuantState.as_dict(packed=True)), as
// transformers saves them:
//
//     weight                                  U8 [elements / 2, 1]      codes, the first of two in the higher bits
//     weight.absmax                           U8 [elements / 64]        magnitudes, places in the map
//     weight.nested_absmax                    F32 [groups]
//     weight.quant_map, weight.nested_quant_map   F32 [16], [256]
//     weight.quant_state.bitsandbytes__nf4    U8                        JSON: sizes, the offset
#include <ATen/ATen.h>
#include <capstan/base/error.h>
#include <capstan/base/json.h>
#include <capstan/base/text.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "codec.h"

namespace nf4 {

using namespace capstan;

namespace {

constexpr const char* nested_end = ".nested_absmax";
constexpr const char* state_end = ".quant_state.bitsandbytes__nf4";
constexpr std::int64_t state_bytes = 320;  // JSON, and spaces after it: so long for any sizes and offset

std::string dtype_text(c10::ScalarType dtype) {
  return dtype == c10::kBFloat16 ? "bfloat16" : dtype == c10::kHalf ? "float16" : "float32";
}

at::Tensor numbers_tensor() { return at::tensor(at::ArrayRef<float>(numbers.data(), numbers.size())); }

[[noreturn]] void refuse(const nn::CodedMatrix& matrix, const std::string& why) {
  throw Error(cat("tensor '", matrix.name, "' cannot be taken as it is: ", why),
              "quantize the model again with BitsAndBytesConfig(load_in_4bit=True, bnb_4bit_quant_type=\"nf4\", "
              "bnb_4bit_use_double_quant=True), or take the model that it was quantized from",
              matrix.file);
}

const at::Tensor& part_of(const nn::CodedMatrix& matrix, const std::string& end) {
  const auto found = matrix.parts.find(end);
  if (found != matrix.parts.end()) return found->second;
  refuse(matrix,
         cat("it has no '", matrix.name, end, "'", end == nested_end ? ": it is without double quantization" : ""));
}

Json state_of(const nn::CodedMatrix& matrix) {
  constexpr std::size_t most = 1 << 16;  // bitsandbytes writes some hundred
  const at::Tensor bytes = part_of(matrix, state_end).contiguous();
  const std::string_view text(static_cast<const char*>(bytes.const_data_ptr()), bytes.nbytes());
  auto json = text.size() > most ? Json() : try_parse_json(text);
  if (!json.is_object()) refuse(matrix, cat("'", matrix.name, state_end, "' is not JSON"));
  return json;
}

void require(const nn::CodedMatrix& matrix, const Json& state, const char* key, const Json& needed) {
  constexpr std::size_t shown = 60;
  const auto found = state.value(key, Json());
  if (found == needed) return;
  refuse(matrix, cat(key, " is ", printable(found.dump().substr(0, shown)), ", and strategy.nf4 has ", needed.dump()));
}

bool is_float(const Json& number) {
  return number.is_number() && std::abs(number.get<double>()) <= std::numeric_limits<float>::max();
}

}  // namespace

nn::PackedForm bnb_form() {
  return {"bnb-nf4",
          "bitsandbytes",
          {".absmax", ".quant_map", nested_end, ".nested_quant_map", state_end, ".quant_state.bitsandbytes__fp4"},
          "in 4 bits (bitsandbytes)",
          "add [strategy.lora] and [strategy.nf4] with their layers among its targets"};
}

std::vector<nn::Codec::FilePart> Codec::file_parts(const layout::Shape& shape) const {
  const auto elements = layout::numel(shape);
  return {{"", c10::kByte, {elements / 2, 1}},
          {".absmax", c10::kByte, {elements / block}},
          {nested_end, c10::kFloat, {groups_of(elements)}},
          {".quant_map", c10::kFloat, {static_cast<std::int64_t>(numbers.size())}},
          {".nested_quant_map", c10::kFloat, {map_size}},
          {state_end, c10::kByte, {state_bytes}}};
}

void Codec::check_matrix(const nn::CodedMatrix& matrix) const {
  (void)part_of(matrix, nested_end);  // without it magnitudes are of another kind, and that is what most folders lack
  for (const auto& part : file_parts(matrix.shape)) {
    const auto& tensor = part_of(matrix, part.end);
    const bool is_state = part.end == state_end;
    if (tensor.scalar_type() == part.dtype && (is_state || tensor.numel() == layout::numel(part.shape))) continue;
    refuse(matrix, cat("'", matrix.name, part.end, "' has ", tensor.numel(), " ", c10::toString(tensor.scalar_type()),
                       ", and a matrix ", layout::shape_text(matrix.shape), " needs ", layout::numel(part.shape), " ",
                       c10::toString(part.dtype)));
  }
  const auto state = state_of(matrix);
  require(matrix, state, "quant_type", "nf4");
  require(matrix, state, "blocksize", block);
  require(matrix, state, "nested_blocksize", group);
  require(matrix, state, "shape", matrix.shape);
  if (!is_float(state.value("nested_offset", Json()))) refuse(matrix, "its state has no number nested_offset");
  const auto nested = part_of(matrix, nested_end);
  if (!at::isfinite(nested).logical_and(nested.ge(0)).all().item<bool>())
    refuse(matrix, cat("'", matrix.name, nested_end, "' has a number below 0 or one that is not finite"));
  const bool same_maps = at::equal(part_of(matrix, ".quant_map"), numbers_tensor()) &&
                         at::equal(part_of(matrix, ".nested_quant_map"), magnitude_map());
  if (!same_maps) refuse(matrix, "its maps have other numbers");
}

void Codec::read_matrices(const Extent& extent, std::int64_t first, const std::vector<nn::CodedMatrix>& matrices,
                          const at::Tensor& bytes) const {
  CAPSTAN_ASSERT(matrices.size() == static_cast<std::size_t>(extent.matrices));
  bytes.zero_();
  const auto to = parts_of(extent, bytes);
  to.map.copy_(magnitude_map());
  const auto [span, column, columns, of_columns] = in_span(extent);
  for (std::size_t i = 0; i < matrices.size(); ++i) {
    const auto m = static_cast<std::int64_t>(i);
    // A byte, or a magnitude, for `span` elements of the extent's columns in its rows.
    const auto take = [&, column = column, columns = columns, of_columns = of_columns, span = span](
                          const std::string& end, std::int64_t each, const at::Tensor& out) {
      const at::Tensor rows = part_of(matrices[i], end).view({-1}).narrow(0, first / each, span / each);
      const auto part = rows.view({-1, of_columns / each}).narrow(1, column / each, columns / each);
      out.view(part.sizes()).copy_(part);
    };
    take("", 2, to.codes[m]);
    take(".absmax", block, to.magnitudes[m]);
    to.nested[m].copy_(part_of(matrices[i], nested_end).view({-1}).narrow(0, first / shared, groups_of(span)));
    to.offsets[m].fill_(state_of(matrices[i]).at("nested_offset").get<double>());
  }
}

std::map<std::string, at::Tensor> Codec::write_matrix(const layout::Shape& shape, const at::Tensor& bytes,
                                                      c10::ScalarType dtype) const {
  const auto from = parts_of({1, layout::numel(shape)}, bytes);
  const Json state{{"quant_type", "nf4"},
                   {"blocksize", block},
                   {"dtype", dtype_text(dtype)},
                   {"shape", shape},
                   {"nested_blocksize", group},
                   {"nested_dtype", "float32"},
                   {"nested_offset", static_cast<double>(from.offsets[0].item<float>())}};
  auto text = state.dump();
  CAPSTAN_ASSERT(text.size() <= static_cast<std::size_t>(state_bytes));
  text.resize(static_cast<std::size_t>(state_bytes), ' ');
  return {{"", from.codes.view({-1, 1})},
          {".absmax", from.magnitudes.view({-1})},
          {nested_end, from.nested.view({-1})},
          {".quant_map", numbers_tensor()},
          {".nested_quant_map", from.map},
          {state_end, at::from_blob(text.data(), {state_bytes}, at::TensorOptions(at::kByte)).clone()}};
}

std::string Codec::files_config(const std::vector<std::string>& plain, c10::ScalarType dtype) const {
  // The head may be the table itself, which files have once.
  constexpr const char* head = "lm_head";
  auto modules = plain;
  if (std::find(modules.begin(), modules.end(), head) == modules.end()) modules.emplace_back(head);
  return Json{{"_load_in_4bit", true},
              {"_load_in_8bit", false},
              {"bnb_4bit_compute_dtype", dtype_text(dtype)},
              {"bnb_4bit_quant_storage", "uint8"},
              {"bnb_4bit_quant_type", "nf4"},
              {"bnb_4bit_use_double_quant", true},
              {"llm_int8_enable_fp32_cpu_offload", false},
              {"llm_int8_has_fp16_weight", false},
              {"llm_int8_skip_modules", modules},
              {"llm_int8_threshold", 6.0},
              {"load_in_4bit", true},
              {"load_in_8bit", false},
              {"quant_method", "bitsandbytes"}}
      .dump();
}

}  // namespace nf4
