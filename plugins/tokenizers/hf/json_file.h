#pragma once
#include <capstan/base/files.h>
#include <capstan/base/json.h>
#include <capstan/base/paths.h>

#include <filesystem>
#include <string>

#include "json_part.h"

namespace hf {

/// A file beside a tokenizer.json; without a text when it does not exist. Throws Error for one that is no JSON object.
struct JsonFile {
  JsonFile(const std::filesystem::path& folder, const char* name) : path((folder / name).string()) {
    if (!capstan::is_there(path)) return;
    text = capstan::read_file(path);
    json = capstan::parse_json(text, "it is not JSON: ", "download it again", path);
    if (!json.is_object()) throw capstan::Error("it is no JSON object", "download it again", path);
  }
  JsonPart part(capstan::Diagnostics& diagnostics) const { return {json, "", path, diagnostics}; }
  bool has(const std::string& key) const { return json.contains(key); }  ///< maybe null

  std::string path;
  std::string text;
  capstan::Json json = nullptr;
};

}  // namespace hf
