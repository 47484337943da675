#pragma once
#include <capstan/base/text.h>

#include <filesystem>
#include <string>

/// What is said of a tensor's box whose bits are others than those that were saved.
inline std::string damaged_text(const std::filesystem::path& file, const std::string& key) {
  return capstan::cat(
      file.string(), ": the data of '", key,
      "' is damaged: it does not have the hash that the manifest says\n    fix: copy the file again, or "
      "take another checkpoint");
}
