#include "record/fingerprint.h"

#include <capstan/base/paths.h>
#include <capstan/base/text.h>
#include <capstan/record/safetensors.h>

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <list>
#include <map>
#include <string_view>

#include "base/disk_wait.h"
#include "base/xxh64.h"

namespace capstan::record {
namespace {

constexpr std::uint64_t piece_bytes = 64;
constexpr std::uint64_t most_pieces = 4096;
constexpr std::uint64_t far_apart = 1 << 18;

// Without it the kernel reads 128 KiB and more around each piece: half a gigabyte of a large model.
void expect_pieces(std::string_view bytes) {
  const auto address = reinterpret_cast<std::uintptr_t>(bytes.data());
  const auto rest = address % static_cast<std::uintptr_t>(::sysconf(_SC_PAGESIZE));
  ::madvise(const_cast<char*>(bytes.data()) - rest, bytes.size() + rest, MADV_RANDOM);
}

// This many pieces of a tensor, the first at its begin and the last at its end; all of a tensor that is as small.
void append_pieces(std::string& text, std::string_view bytes, std::uint64_t pieces) {
  if (bytes.size() <= pieces * piece_bytes) {
    text += bytes;
    return;
  }
  if (bytes.size() / pieces > far_apart) expect_pieces(bytes);
  const auto room = bytes.size() - piece_bytes;
  for (std::uint64_t i = 0; i < pieces; ++i)
    text += bytes.substr(pieces == 1 ? room / 2 : room * i / (pieces - 1), piece_bytes);
}

}  // namespace

std::string fingerprint(const std::filesystem::path& folder) {
  const DiskWait at_disk("reading", folder);
  std::list<checkpoint::MappedTensors> files;
  std::map<std::string, const checkpoint::MappedTensors*> tensors;
  for (const auto& path : entries_of(folder)) {
    if (path.extension() != ".safetensors" || !is_file(path)) continue;
    const auto& file = files.emplace_back(path);
    for (const auto& [name, info] : file.tensors()) tensors.emplace(name, &file);
  }
  const auto config = folder / "config.json";
  auto text = is_file(config) ? read_file(config) : std::string();
  const auto pieces = std::max<std::uint64_t>(1, most_pieces / std::max<std::uint64_t>(1, tensors.size()));
  for (const auto& [name, file] : tensors) {
    const auto& info = file->info(name);
    text += cat("\n", name, " ", checkpoint::dtype_name(info.dtype), layout::shape_text(info.shape), "\n");
    append_pieces(text, {reinterpret_cast<const char*>(file->bytes(name)), info.end - info.begin}, pieces);
  }
  return xxh64_text(reinterpret_cast<const std::byte*>(text.data()), text.size());
}

}  // namespace capstan::record
