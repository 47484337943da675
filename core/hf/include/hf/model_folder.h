#pragma once
#include <capstan/base/export.h>
#include <capstan/config/options.h>

#include <string>
#include <vector>

CAPSTAN_BEGIN_NAMESPACE
namespace hf {

/// A Hugging Face folder, and what in the configuration names it.
struct ModelFolder {
  std::string path;              ///< the folder
  std::string where;             ///< file and line, for messages
  bool adapter_is_read = false;  ///< a strategy of the run reads the adapter that may lie in the folder too
};

/// How a folder's weights are quantized.
struct Quantization {
  std::string method;         ///< "" where the folder does not say which
  bool is_decodable = false;  ///< they can be read as numbers, whatever strategies there are
};

/// A model's options with those of its folder.
struct FromFolder {
  config::Section section;
  std::string note;                       ///< for people: keys that Capstan does not know; empty: it knows all
  std::vector<std::string> unknown = {};  ///< these keys
};

}  // namespace hf
CAPSTAN_END_NAMESPACE
