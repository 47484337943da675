#pragma once
#include <capstan/record/safetensors.h>

#include <cstddef>
#include <map>
#include <string>

namespace capstan::checkpoint {

struct Header {
  std::map<std::string, TensorInfo> tensors;
  std::map<std::string, std::string> metadata;
  std::size_t data_begin = 0;  ///< in the file
};

/// Reads and validates the header of a whole file of `size` bytes at `file`. Throws Error with `where`; a file that
/// ends before its data does is added to `faults` instead, since the header still says what it should hold.
Header parse_header(const std::string& where, const std::byte* file, std::size_t size, Diagnostics& faults);

}  // namespace capstan::checkpoint
