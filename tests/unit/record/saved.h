#pragma once
// A checkpoint of few bytes, written without LibTorch.
#include <capstan/base/text.h>

#include <cstdint>
#include <string>
#include <tuple>

#include "base/xxh64.h"
#include "record/manifest.h"
#include "support/folder.h"

namespace saved {

/// The content of a safetensors file: its header's length, its header, its data.
inline std::string safetensors(const std::string& header, const std::string& data) {
  std::string out;
  for (int i = 0; i < 8; ++i) out += static_cast<char>(header.size() >> (8 * i) & 0xFFU);
  return out + header + data;
}

inline std::string hash_of(const std::string& data) {
  return capstan::xxh64_text(reinterpret_cast<const std::byte*>(data.data()), data.size());
}

/// Two ranks' halves of the bytes "abcdef" of shape [6].
inline capstan::checkpoint::Manifest manifest() {
  capstan::checkpoint::Manifest out;
  out.meta.step = 7;
  out.meta.version = "1";
  out.meta.mesh = "dp 2";
  out.meta.world_size = 2;
  out.meta.sections["cursor"] = R"({"sample":3})";
  auto& tensor = out.contents.tensors["model/w"];
  tensor.shape = {6};
  tensor.dtype = capstan::checkpoint::Dtype::u8;
  tensor.boxes = {{{{0}, {3}}, "a.safetensors", {hash_of("abc")}}, {{{3}, {3}}, "b.safetensors", {hash_of("def")}}};
  return out;
}

/// The same, in files of `folder`.
inline void write(const test::Folder& folder) {
  auto all = manifest();
  for (const auto& [file, key, data] :
       {std::tuple("a.safetensors", "model/w[0:3]", "abc"), std::tuple("b.safetensors", "model/w[3:6]", "def")}) {
    const auto content = safetensors(capstan::cat("{\"", key, R"(":{"dtype":"U8","shape":[3],"data_offsets":[0,3]}})"),
                                     std::string(data));
    folder.write(file, content);
    all.contents.files[file] = static_cast<std::int64_t>(content.size());
  }
  folder.write("manifest.json", capstan::checkpoint::manifest_text(all));
}

}  // namespace saved
