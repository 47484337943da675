#pragma once
#include <capstan/monitor/monitor.h>

#include <cstdint>
#include <filesystem>
#include <fstream>
#include <string>
#include <string_view>

namespace tensorboard {

/// CRC-32C (Castagnoli), rotated and shifted as TFRecord files have it.
std::uint32_t masked_crc(std::string_view bytes);
/// A record as it stands in the file: length, its checksum, bytes, their checksum.
std::string record(std::string_view bytes);

/// An event file that TensorBoard reads. Scalars are in it as soon as the call returns. Throws FileError when it cannot
/// be written.
class EventFile {
 public:
  /// `time`: seconds since 1970.
  EventFile(std::filesystem::path file, double time);
  void scalars(double time, std::int64_t step, const capstan::monitor::Values& values);
  /// Markdown on the Text page.
  void text(double time, const std::string& tag, const std::string& markdown);

 private:
  void write(const std::string& event);
  std::filesystem::path file_;
  std::ofstream out_;
};

}  // namespace tensorboard
