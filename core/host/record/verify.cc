#include "record/verify.h"

#include <capstan/base/paths.h>
#include <capstan/base/text.h>

#include <algorithm>
#include <cerrno>
#include <set>

#include "base/disk_wait.h"
#include "base/xxh64.h"

namespace capstan::checkpoint {
namespace {

namespace fs = std::filesystem;

constexpr const char* copy_again = "copy the folder again, with all its files, or take another checkpoint";

/// A piece of a box's data that a rank hashes.
struct Piece {
  const std::string* name;
  const TensorEntry* tensor;
  const BoxEntry* box;
  std::size_t index;
  std::int64_t bytes;
};

using Files = std::map<std::string, MappedTensors>;

void add(Diagnostics& to, const Error& error) {
  for (const auto& fault : error.diagnostics()) to.add(fault);
}

// May the checkpoint be whole, and only this program or this file system cannot read it? A folder in a file's place is
// another fault.
bool is_refusal(const Error& error) {
  if (dynamic_cast<const OtherVersion*>(&error) != nullptr) return true;
  const auto* file = dynamic_cast<const FileError*>(&error);
  return file && !file->absent() && file->error_number() != EISDIR;
}

std::vector<Piece> pieces_of(const Contents& contents) {
  std::vector<Piece> out;
  for (const auto& [name, tensor] : contents.tensors) {
    for (const auto& box : tensor.boxes) {
      auto left = tensor.bytes(box);
      for (std::size_t i = 0; i < box.xxh64.size(); ++i, left -= hashed_bytes) {
        out.push_back({&name, &tensor, &box, i, std::min(left, hashed_bytes)});
      }
    }
  }
  // In file order, so that files are read from front to back.
  std::stable_sort(out.begin(), out.end(), [](const Piece& a, const Piece& b) { return a.box->file < b.box->file; });
  return out;
}

// The pieces that this rank hashes: about as many bytes as every other rank.
std::vector<Piece> share_of(const std::vector<Piece>& all, int rank, int ranks) {
  std::int64_t total = 0;
  for (const auto& piece : all) total += piece.bytes;
  std::vector<Piece> out;
  std::int64_t before = 0;
  for (const auto& piece : all) {
    if (before * ranks / std::max<std::int64_t>(total, 1) == rank) out.push_back(piece);
    before += piece.bytes;
  }
  return out;
}

// Opens what the manifest names; a file that is no safetensors file, or has other boxes, is a fault.
Files open_files(const fs::path& folder, const Contents& contents, Diagnostics& faults) {
  Files files;
  for (const auto& item : contents.files) {
    try {
      files.try_emplace(item.first, folder / item.first);
    } catch (const Error& error) {
      if (is_refusal(error)) throw;
      add(faults, error);
    }
  }
  for (const auto& [name, tensor] : contents.tensors) {
    for (const auto& box : tensor.boxes) {
      const auto file = files.find(box.file);
      if (file == files.end()) continue;
      try {
        check_header(file->second, name, tensor, box);
      } catch (const Error& error) {
        add(faults, error);
      }
    }
  }
  return files;
}

void check_hashes(const Files& files, const std::vector<Piece>& share, Diagnostics& faults, const Progress& progress) {
  std::int64_t total = 0;
  for (const auto& piece : share) total += piece.bytes;
  std::int64_t done = 0;
  std::set<std::string> reported;
  for (const auto& piece : share) {
    const auto& file = files.at(piece.box->file);
    const auto key = key_of(*piece.name, piece.box->box);
    if (!is_intact(file, *piece.name, *piece.box, piece.index) && reported.insert(key).second) {
      add(faults, damaged(file, key));
    }
    done += piece.bytes;
    if (progress) progress(done, total);
  }
}

}  // namespace

Manifest open_manifest(const fs::path& folder) {
  const auto path = folder / "manifest.json";
  if (is_there(path)) return parse_manifest(path);
  throw Error(is_folder(folder) ? "it holds no manifest.json" : "no such folder",
              "name the folder of a checkpoint; one with .tmp in its name was never finished", folder.string());
}

void check_files(const fs::path& folder, const Manifest& manifest, Diagnostics& faults) {
  for (const auto& [name, length] : manifest.contents.files) {
    const auto path = folder / name;
    std::error_code failed;
    if (fs::is_other(path, failed)) {
      faults.add(path.string(), "it is a pipe or a device, not a file", copy_again);
      continue;
    }
    const auto found = fs::file_size(path, failed);
    if (failed) {
      const FileError error(path, "look at", failed.value());
      if (is_refusal(error)) throw FileError(error);
      faults.add(path.string(), error.diagnostics().front().what, copy_again);
    } else if (static_cast<std::int64_t>(found) != length) {
      faults.add(path.string(), cat("it has ", found, " bytes, the manifest says ", length), copy_again);
    }
  }
}

void check_header(const MappedTensors& file, const std::string& name, const TensorEntry& tensor,
                  const BoxEntry& entry) {
  const auto key = key_of(name, entry.box);
  if (!file.has(key)) {
    throw Error(cat("it has no '", key, "', the manifest says it has"),
                "the files are not of one save: copy the folder again", file.path().string());
  }
  const auto& info = file.info(key);
  if (info.shape == entry.box.size && info.dtype == tensor.dtype) return;
  throw Error(cat("'", key, "' is ", dtype_name(info.dtype), " ", layout::shape_text(info.shape),
                  ", the manifest says ", dtype_name(tensor.dtype), " ", layout::shape_text(entry.box.size)),
              "the files are not of one save: copy the folder again", file.path().string());
}

bool is_intact(const MappedTensors& file, const std::string& name, const BoxEntry& entry, std::size_t piece) {
  const auto key = key_of(name, entry.box);
  const auto& info = file.info(key);
  const auto begin = piece * static_cast<std::size_t>(hashed_bytes);
  const auto length = std::min(info.end - info.begin - begin, static_cast<std::size_t>(hashed_bytes));
  return xxh64_text(file.bytes(key) + begin, length) == entry.xxh64[piece];
}

Error damaged(const MappedTensors& file, const std::string& key) {
  return Error(cat("the data of '", key, "' is damaged: it does not have the hash that the manifest says"),
               "copy the file again, or take another checkpoint", file.path().string());
}

Verdict verify_share(const fs::path& path, Depth depth, const Progress& progress, int rank, int ranks) {
  Verdict found;
  const DiskWait at_disk("reading", path);
  try {
    const auto manifest = open_manifest(path);
    check_files(path, manifest, found.faults);
    if (!found.faults.empty()) return found;
    const auto files = open_files(path, manifest.contents, found.faults);
    if (!found.faults.empty() || depth == Depth::structure) return found;
    check_hashes(files, share_of(pieces_of(manifest.contents), rank, ranks), found.faults, progress);
  } catch (const Error& error) {
    found.is_readable = !is_refusal(error);
    add(found.faults, error);
  }
  return found;
}

}  // namespace capstan::checkpoint
