#include "record/manifest.h"

#include <capstan/base/files.h>
#include <capstan/base/json.h>
#include <capstan/base/printable.h>
#include <capstan/base/text.h>

#include <algorithm>
#include <cmath>
#include <string_view>

#include "base/xxh64.h"
#include "record/dtype.h"

namespace capstan::checkpoint {
namespace {

constexpr const char* format_name = "capstan-checkpoint";
constexpr int format_version = 1;
constexpr const char* seal_begin = ",\n\"xxh64\": \"";
constexpr const char* changed_fix = "copy the folder again, or take another checkpoint";

// The elements of an object or list, one per line: people read manifests too.
std::string lines(const Json& json) {
  std::string out;
  for (const auto& [key, value] : json.items()) {
    out += cat(out.empty() ? "\n  " : ",\n  ", Json(key).dump(), ": ", value.dump());
  }
  return "{" + out + "}";
}

std::string hash_of(std::string_view text) {
  return xxh64_text(reinterpret_cast<const std::byte*>(text.data()), text.size());
}

Json json_of(const TensorEntry& tensor) {
  Json boxes = Json::array();
  for (const auto& entry : tensor.boxes) {
    boxes.push_back(
        {{"file", entry.file}, {"offset", entry.box.offset}, {"size", entry.box.size}, {"xxh64", entry.xxh64}});
  }
  return {{"boxes", std::move(boxes)}, {"dtype", dtype_name(tensor.dtype)}, {"shape", tensor.shape}};
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
  if (!bytes_of(tensor.shape, tensor.dtype)) {
    throw Error(cat("tensor '", name, "' has shape ", layout::shape_text(tensor.shape), ", more than any file holds"));
  }
  for (const auto& box : json.at("boxes")) tensor.boxes.push_back(box_from(name, tensor, box));
  return tensor;
}

// {"files": {name: bytes}, "tensors": {name: {"shape", "dtype", "boxes"}}}.
Json json_of(const Contents& contents) {
  Json tensors = Json::object();
  for (const auto& [name, tensor] : contents.tensors) tensors[name] = json_of(tensor);
  return {{"files", contents.files}, {"tensors", std::move(tensors)}};
}

// Throws JsonError, and Error without a place.
Contents contents_from(const Json& json) {
  Contents out;
  out.files = json.at("files").get<std::map<std::string, std::int64_t>>();
  for (const auto& [name, tensor] : json.at("tensors").items()) out.tensors.emplace(name, tensor_from(name, tensor));
  return out;
}

std::int64_t elements(const TensorEntry& tensor) {
  std::int64_t sum = 0;
  for (const auto& entry : tensor.boxes) sum += entry.box.numel();
  return sum;
}

// Boxes inside the shape, without overlap, with as many elements as the tensor: so each element is there once.
void assert_partition(const TensorEntry& tensor) {
  for (std::size_t i = 0; i < tensor.boxes.size(); ++i) {
    for (std::size_t j = 0; j < i; ++j) {
      CAPSTAN_ASSERT(layout::intersect(tensor.boxes[i].box, tensor.boxes[j].box).empty());
    }
  }
  CAPSTAN_ASSERT(elements(tensor) == layout::numel(tensor.shape));
}

void check_complete(const Contents& contents) {
  for (const auto& [name, tensor] : contents.tensors) {
    if (elements(tensor) != layout::numel(tensor.shape)) {
      throw Error(cat("the boxes of tensor '", name, "' hold ", elements(tensor), " elements, its shape ",
                      layout::shape_text(tensor.shape), " has ", layout::numel(tensor.shape)),
                  changed_fix);
    }
    for (const auto& entry : tensor.boxes) {
      if (contents.files.contains(entry.file)) continue;
      throw Error(cat("tensor '", name, "' lies in '", entry.file, "', which is none of its files"), changed_fix);
    }
  }
}

void check_format(const Json& json) {
  if (json.at("format") == format_name) return;
  throw Error(cat("its format is ", json.at("format").dump(), ", not \"", format_name, "\""));
}

// Every version of the format has the seal, so that a damaged number passes for no other version.
void check_seal(const std::string& text) {
  if (sealed(text) == text) return;
  throw Error("it is not what was written: its last line has the hash of another text", changed_fix);
}

void check_version(const Json& json, const std::string& where) {
  const auto number = json.at("version").get<std::int64_t>();
  if (number == format_version) return;
  throw OtherVersion(cat("its format has version ", number, ", this program reads ", format_version, ": ",
                         number > format_version ? "a newer" : "another", " Capstan has written it (",
                         json.at("capstan").get<std::string>(), ")"),
                     "use that Capstan, or name another checkpoint", where);
}

// Earlier versions named the pipeline axis too, which never had more than one part.
std::string mesh_in(std::string text) {
  constexpr std::string_view no_pipeline = " pp 1 x";
  const auto at = text.find(no_pipeline);
  return at == std::string::npos ? text : text.erase(at, no_pipeline.size());
}

Meta parse_meta(const Json& json) {
  Meta meta;
  meta.step = json.at("step").get<std::int64_t>();
  meta.world_size = json.at("world_size").get<int>();
  meta.mesh = mesh_in(json.at("mesh").get<std::string>());
  meta.date = json.at("date").get<std::string>();
  meta.version = json.at("capstan").get<std::string>();
  meta.config = json.at("config").get<std::string>();
  meta.metrics = json.at("metrics").get<std::map<std::string, double>>();
  for (const auto& [name, section] : json.at("sections").items()) meta.sections[name] = section.dump();
  return meta;
}

}  // namespace

std::int64_t TensorEntry::bytes(const BoxEntry& entry) const { return entry.box.numel() * dtype_bytes(dtype); }

std::string key_of(const std::string& tensor, const layout::Box& box) { return tensor + box.text(); }

Contents merge_pieces(const std::vector<std::string>& pieces) {
  Contents all;
  for (const auto& text : pieces) {
    auto piece = contents_from(Json::parse(text));
    all.files.merge(piece.files);
    for (auto& [name, tensor] : piece.tensors) {
      const auto [known, is_new] = all.tensors.try_emplace(name, tensor);
      if (is_new) continue;
      CAPSTAN_ASSERT(known->second.shape == tensor.shape && known->second.dtype == tensor.dtype);
      auto& boxes = known->second.boxes;
      boxes.insert(boxes.end(), tensor.boxes.begin(), tensor.boxes.end());
    }
  }
  for (const auto& item : all.tensors) assert_partition(item.second);
  return all;
}

std::string piece_text(const Contents& contents) { return json_of(contents).dump(); }

std::string sealed(const std::string& text) {
  const auto end = text.rfind(seal_begin);
  const auto body = text.substr(0, end);
  return cat(body, seal_begin, hash_of(body), "\"\n}\n");
}

std::string manifest_text(const Manifest& manifest) {
  const auto& meta = manifest.meta;
  auto sections = Json::object();
  for (const auto& [name, section] : meta.sections) sections[name] = Json::parse(section).sorted();
  auto metrics = Json::object();
  for (const auto& [name, value] : meta.metrics) {
    if (std::isfinite(value)) metrics[name] = value;  // JSON has no other numbers
  }
  const auto contents = json_of(manifest.contents);
  return sealed(cat("{\n\"format\": ", Json(format_name), ",\n\"version\": ", format_version,
                    ",\n\"capstan\": ", Json(meta.version), ",\n\"step\": ", meta.step,
                    ",\n\"date\": ", Json(meta.date), ",\n\"world_size\": ", meta.world_size,
                    ",\n\"mesh\": ", Json(meta.mesh), ",\n\"metrics\": ", metrics, ",\n\"sections\": ", lines(sections),
                    ",\n\"config\": ", Json(meta.config), ",\n\"files\": ", lines(contents.at("files")),
                    ",\n\"tensors\": ", lines(contents.at("tensors"))));
}

Manifest parse_manifest(const std::filesystem::path& path) {
  const auto where = path.string();
  const auto text = read_file(path);
  try {
    const auto json = Json::parse(text);
    check_format(json);
    check_seal(text);
    check_version(json, where);
    Manifest manifest{parse_meta(json), contents_from(json)};
    check_complete(manifest.contents);
    return manifest;
  } catch (const OtherVersion&) {
    throw;
  } catch (const JsonParseError& error) {
    throw Error(cat("no valid manifest: ", json_fault(text, error)), changed_fix, where);
  } catch (const JsonKeyError& error) {
    throw Error(cat("no valid manifest: ", printable(error.what())), changed_fix, where);
  } catch (const JsonError&) {
    throw Error("no valid manifest: a value is missing, or of another kind than Capstan writes", changed_fix, where);
  } catch (const Error& error) {
    const auto& first = error.diagnostics().front();
    throw Error(first.what, first.fix.empty() ? changed_fix : first.fix, where);
  }
}

}  // namespace capstan::checkpoint
