#include "record/manifest_json.h"

#include <capstan/base/text.h>

#include <algorithm>

#include "record/dtype.h"

namespace capstan::checkpoint {
namespace {

using Json = nlohmann::json;

Json json_of(const TensorEntry& tensor) {
  Json boxes = Json::array();
  for (const auto& entry : tensor.boxes) {
    boxes.push_back(
        {{"offset", entry.box.offset}, {"size", entry.box.size}, {"file", entry.file}, {"xxh64", entry.xxh64}});
  }
  return {{"shape", tensor.shape}, {"dtype", dtype_name(tensor.dtype)}, {"boxes", std::move(boxes)}};
}

BoxEntry box_from(const std::string& name, const TensorEntry& tensor, const Json& json) {
  BoxEntry entry{{json.at("offset").get<layout::Shape>(), json.at("size").get<layout::Shape>()},
                 json.at("file").get<std::string>(),
                 json.at("xxh64").get<std::vector<std::string>>()};
  if (!entry.box.fits(tensor.shape)) {
    throw Error(cat("tensor '", name, "' has shape ", layout::shape_text(tensor.shape), ", but a box of ",
                    layout::shape_text(entry.box.size), " at ", layout::shape_text(entry.box.offset)));
  }
  const auto pieces = (tensor.bytes(entry) + hashed_bytes - 1) / hashed_bytes;
  if (static_cast<std::int64_t>(entry.xxh64.size()) != pieces) {
    throw Error(cat("box ", entry.box.text(), " of tensor '", name, "' has ", entry.xxh64.size(), " hashes instead of ",
                    pieces));
  }
  return entry;
}

TensorEntry tensor_from(const std::string& name, const Json& json) {
  TensorEntry tensor;
  tensor.shape = json.at("shape").get<layout::Shape>();
  if (std::any_of(tensor.shape.begin(), tensor.shape.end(), [](auto size) { return size < 0; })) {
    throw Error(cat("tensor '", name, "' has shape ", layout::shape_text(tensor.shape)));
  }
  const auto dtype = dtype_named(json.at("dtype").get<std::string>());
  if (!dtype) throw Error(cat("tensor '", name, "' has dtype ", json.at("dtype").dump(), ", none of ", dtype_names()));
  tensor.dtype = *dtype;
  auto bytes = dtype_bytes(tensor.dtype);
  for (const auto size : tensor.shape) {
    if (__builtin_mul_overflow(bytes, size, &bytes)) {
      throw Error(
          cat("tensor '", name, "' has shape ", layout::shape_text(tensor.shape), ", more than any file holds"));
    }
  }
  for (const auto& box : json.at("boxes")) tensor.boxes.push_back(box_from(name, tensor, box));
  return tensor;
}

}  // namespace

Json json_of(const Contents& contents) {
  Json tensors = Json::object();
  for (const auto& [name, tensor] : contents.tensors) tensors[name] = json_of(tensor);
  return {{"files", contents.files}, {"tensors", std::move(tensors)}};
}

Contents contents_from(const Json& json) {
  Contents out;
  out.files = json.at("files").get<std::map<std::string, std::int64_t>>();
  for (const auto& [name, tensor] : json.at("tensors").items()) out.tensors.emplace(name, tensor_from(name, tensor));
  return out;
}

}  // namespace capstan::checkpoint
