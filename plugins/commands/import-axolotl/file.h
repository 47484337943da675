#pragma once
#include <capstan/base/json.h>

#include <map>
#include <string>

namespace import_axolotl {

/// A YAML file as Python reads it. Paths are "lora_r" and "datasets[0].path".
struct File {
  std::string name;                  ///< as messages name it
  capstan::Json value;               ///< the document
  std::map<std::string, int> lines;  ///< of each key and item
  std::string templates = {};        ///< the folder with axolotl's own chat templates, where this Python has axolotl

  /// "FILE:12", or the file where the line is not known.
  std::string where(const std::string& path) const;
  /// "lora_r, line 12".
  std::string from(const std::string& path) const;
};

/// Reads the file by a Python 3 with PyYAML; `python` empty: that of $VIRTUAL_ENV, else python3 of PATH. Throws Error
/// at the file's line for what is no YAML, and for a Python that is not there or has no PyYAML.
File read_yaml(const std::string& python, const std::string& file);

}  // namespace import_axolotl
