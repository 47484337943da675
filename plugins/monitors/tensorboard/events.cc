#include "events.h"

#include <capstan/base/paths.h>

#include <array>
#include <boost/crc.hpp>
#include <cerrno>
#include <protozero/pbf_writer.hpp>

namespace tensorboard {

using namespace capstan;

namespace {

// Numbers of fields in TensorFlow's event.proto, summary.proto and tensor.proto.
enum Event { wall_time = 1, event_step = 2, file_version = 3, event_summary = 5 };
enum Summary { summary_value = 1 };
enum Value { tag = 1, simple_value = 2, value_tensor = 8, value_metadata = 9 };
enum Metadata { plugin_data = 1 };
enum PluginData { plugin_name = 1 };
enum Tensor { tensor_dtype = 1, tensor_shape = 2, string_val = 8 };
constexpr int dtype_string = 7;

std::string little_endian(std::uint64_t number, std::size_t bytes) {
  std::string out(bytes, '\0');
  for (std::size_t i = 0; i < bytes; ++i) out[i] = static_cast<char>((number >> (8 * i)) & 0xFFU);
  return out;
}

}  // namespace

std::uint32_t masked_crc(std::string_view bytes) {
  boost::crc_optimal<32, 0x1EDC6F41, 0xFFFFFFFF, 0xFFFFFFFF, true, true> sum;
  sum.process_bytes(bytes.data(), bytes.size());
  const std::uint32_t crc = sum.checksum();
  return ((crc >> 15U) | (crc << 17U)) + 0xA282EAD8U;
}

std::string record(std::string_view bytes) {
  const auto length = little_endian(bytes.size(), 8);
  return length + little_endian(masked_crc(length), 4) + std::string(bytes) + little_endian(masked_crc(bytes), 4);
}

EventFile::EventFile(std::filesystem::path file, double time)
    : file_(std::move(file)), out_(file_, std::ios::binary | std::ios::trunc) {
  if (!out_) throw FileError(file_, "write", errno);
  std::string event;
  protozero::pbf_writer writer(event);
  writer.add_double(wall_time, time);
  writer.add_string(file_version, "brain.Event:2");
  write(event);
}

void EventFile::scalars(double time, std::int64_t step, const monitor::Values& values) {
  std::string event;
  protozero::pbf_writer writer(event);
  writer.add_double(wall_time, time);
  writer.add_int64(event_step, step);
  {
    protozero::pbf_writer summary(writer, event_summary);
    for (const auto& [name, number] : values) {
      protozero::pbf_writer value(summary, summary_value);
      value.add_string(tag, name);
      value.add_float(simple_value, static_cast<float>(number));
    }
  }
  write(event);
}

void EventFile::text(double time, const std::string& name, const std::string& markdown) {
  std::string event;
  protozero::pbf_writer writer(event);
  writer.add_double(wall_time, time);
  {
    protozero::pbf_writer summary(writer, event_summary);
    protozero::pbf_writer value(summary, summary_value);
    value.add_string(tag, name);
    {
      protozero::pbf_writer metadata(value, value_metadata);
      protozero::pbf_writer plugin(metadata, plugin_data);
      plugin.add_string(plugin_name, "text");
    }
    protozero::pbf_writer tensor(value, value_tensor);
    tensor.add_enum(tensor_dtype, dtype_string);
    tensor.add_message(tensor_shape, std::string());
    tensor.add_bytes(string_val, markdown);
  }
  write(event);
}

void EventFile::write(const std::string& event) {
  const auto bytes = record(event);
  out_.write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
  out_.flush();
  if (!out_) throw FileError(file_, "write", errno);
}

}  // namespace tensorboard
