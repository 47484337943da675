#pragma once
#include <capstan/base/box.h>
#include <capstan/base/export.h>
#include <capstan/record/checkpoints.h>

#include <cstdint>
#include <filesystem>
#include <map>
#include <string>
#include <vector>

CAPSTAN_BEGIN_NAMESPACE
namespace checkpoint {

/// Data is hashed in pieces of this size from a box's start, so that a reader of a part need not read the rest.
constexpr std::int64_t hashed_bytes = std::int64_t{16} << 20;

/// Where one box of a tensor is stored.
struct BoxEntry {
  layout::Box box;
  std::string file;
  std::vector<std::string> xxh64;  ///< one for each piece of hashed_bytes, the last one shorter
};

struct TensorEntry {
  layout::Shape shape;
  Dtype dtype = Dtype::f32;
  std::vector<BoxEntry> boxes;

  /// Bytes of a box in the file.
  std::int64_t bytes(const BoxEntry& entry) const;
};

/// A box's name in its file: "model/wte.weight[0:384, 0:768]".
std::string key_of(const std::string& tensor, const layout::Box& box);

/// The content of one rank's file, or of all.
struct Contents {
  std::map<std::string, TensorEntry> tensors;
  std::map<std::string, std::int64_t> files;  ///< their lengths in bytes
};

struct Manifest {
  Meta meta;
  Contents contents;
};

/// As JSON, to send it between ranks.
std::string piece_text(const Contents& contents);
/// All ranks' pieces in one. Boxes that overlap, or leave elements out, are a bug of the code that saved them.
Contents merge_pieces(const std::vector<std::string>& pieces);

/// The text of manifest.json; its last line is a hash of all the others.
std::string manifest_text(const Manifest& manifest);
/// Throws Error with `path` if it is no manifest or was changed, OtherVersion if it is whole and of another version.
Manifest parse_manifest(const std::filesystem::path& path);
/// A manifest's text with the hash that belongs to it.
std::string sealed(const std::string& text);

}  // namespace checkpoint
CAPSTAN_END_NAMESPACE
