#include "stream_writer.h"

#include <capstan/base/error.h>
#include <capstan/base/paths.h>

#include <algorithm>
#include <cerrno>
#include <utility>

#include "megatron_index.h"
#include "token_file.h"

namespace streams {

using namespace capstan;

namespace {

template <class Number>
void put(std::string& bytes, Number number) {
  bytes.append(reinterpret_cast<const char*>(&number), sizeof number);
}

std::ofstream opened(const std::filesystem::path& path) {
  std::ofstream out(path, std::ios::binary | std::ios::trunc);
  if (!out) throw FileError(path, "write", errno);
  return out;
}

void close(std::ofstream& out, const std::filesystem::path& path) {
  out.close();
  if (!out) throw FileError(path, "write", errno);
}

}  // namespace

StreamWriter::StreamWriter(std::filesystem::path file, TokenType type)
    : path_(std::move(file)), type_(type), out_(opened(path_)) {}

void StreamWriter::write(std::ofstream& out, const std::filesystem::path& path, const std::string& bytes) const {
  out.write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
  if (!out) throw FileError(path, "write", errno);
}

void StreamWriter::add(const TokenBatch& batch) {
  write(out_, path_, batch.bytes);
  lengths_.insert(lengths_.end(), batch.lengths.begin(), batch.lengths.end());
  tokens_ += static_cast<std::int64_t>(batch.bytes.size()) / bytes_of(type_);
}

// Each document is one sequence.
void StreamWriter::write_index(std::ofstream& out, const std::filesystem::path& path) const {
  constexpr std::size_t at_once = std::size_t{1} << 20;
  std::string bytes(IndexHead::magic);
  put(bytes, IndexHead::version);
  put(bytes, IndexHead::code_of(type_));
  put(bytes, static_cast<std::uint64_t>(documents()));
  put(bytes, static_cast<std::uint64_t>(documents() + 1));
  const auto put_each = [&](auto number, const auto& next) {
    for (const auto length : lengths_) {
      put(bytes, number);
      number = next(number, length);
      if (bytes.size() >= at_once) {
        write(out, path, bytes);
        bytes.clear();
      }
    }
    return number;
  };
  for (const auto length : lengths_) put(bytes, length);
  put_each(std::int64_t{0},
           [&](std::int64_t before, std::int32_t length) { return before + length * bytes_of(type_); });
  const auto end = put_each(std::int64_t{0}, [](std::int64_t before, std::int32_t) { return before + 1; });
  put(bytes, end);
  write(out, path, bytes);
}

void StreamWriter::finish(const std::filesystem::path& index) {
  close(out_, path_);
  auto out = opened(index);
  write_index(out, index);
  close(out, index);
}

void StreamWriter::finish_joined() {
  const auto begin = out_.tellp();
  write_index(out_, path_);
  JoinedEnd end;
  end.index_bytes = static_cast<std::uint64_t>(out_.tellp() - begin);
  std::string bytes;
  put(bytes, end);
  write(out_, path_, bytes);
  close(out_, path_);
}

}  // namespace streams
