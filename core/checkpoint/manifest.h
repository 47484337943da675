#pragma once
#include <capstan/checkpoint/boxes.h>
#include <capstan/layout/box.h>

#include <c10/core/ScalarType.h>

#include <filesystem>
#include <map>
#include <string>
#include <vector>

namespace capstan::checkpoint {

/// Where one box of a record lies.
struct BoxEntry {
  layout::Box box;
  std::string file;
  std::string key;    ///< the tensor's name in the file: "wte.weight[0:384, 0:768]"
  std::string xxh64;  ///< of the tensor's bytes
};

struct RecordEntry {
  layout::Shape shape;
  c10::ScalarType dtype = c10::ScalarType::Float;
  std::vector<BoxEntry> boxes;
};

/// Records by name: of one rank (a piece), or of all.
using Records = std::map<std::string, RecordEntry>;

constexpr int boxes_format_version = 1;

/// As JSON, for the way from rank to rank.
std::string piece_text(const Records& records);
Records parse_piece(const std::string& text);

/// All pieces in one. Boxes that overlap, or leave elements out, are a bug of whoever saved them.
Records merge_pieces(const std::vector<std::string>& pieces);

std::string manifest_text(const Records& records, const BoxesInfo& info, int world_size);
/// Throws Error with `path` for what is no manifest, or one of a later format.
Records parse_manifest(const std::filesystem::path& path, BoxesInfo& info);

}  // namespace capstan::checkpoint
