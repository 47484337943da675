#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "merge_table.h"
#include "tokenizer_spec.h"

namespace hf {

/// Byte pair encoding of one piece of text: its characters' ids (bytes' in a byte-level vocabulary), then merges, the
/// earliest in the list first and of equal ones the leftmost, until no pair is left that merges. A heap holds the
/// pairs, so a piece of n characters takes n log n: a SentencePiece-style vocabulary cuts no words, its piece is a
/// whole text.
class Bpe {
 public:
  /// `byte_level`: the vocabulary is written in byte_level_text, and pieces are given as plain bytes.
  Bpe(const BpeSpec& spec, bool byte_level);

  /// A part of the piece that is one token.
  struct Symbol {
    std::int32_t id = 0;
    std::int32_t previous = -1;
    std::int32_t next = -1;
    MergeTable::Merge merge;  ///< with the next symbol; rank none also when this symbol is gone
  };
  /// Memory that encode() reuses; one for each thread.
  struct Scratch {
    std::vector<Symbol> symbols;
    std::vector<std::uint64_t> heap;
    bool measures = false;  ///< encode() gives `extents` too
    /// The bytes of a piece that a token stands for, which follow those of the token before it.
    struct Extent {
      std::size_t skipped = 0;  ///< bytes before it that no token stands for
      std::size_t size = 0;
    };
    std::vector<Extent> extents;  ///< one for each id of the last piece
    std::vector<Extent> units;    ///< the same of each symbol before anything was merged
    std::size_t skipped = 0;      ///< bytes since the last symbol
  };
  /// Appends the ids of a piece of well-formed UTF-8.
  void encode(std::string_view piece, Scratch& scratch, std::vector<std::int64_t>& ids) const;

 private:
  struct TextHash {
    using is_transparent = void;
    std::size_t operator()(std::string_view text) const { return std::hash<std::string_view>()(text); }
  };
  using Ids = std::unordered_map<std::string, std::int32_t, TextHash, std::equal_to<>>;

  void add_characters(const Ids& vocabulary, bool byte_fallback);
  void find_whole(const BpeSpec& spec);
  std::int32_t unit_id(std::string_view unit) const;
  bool add_bytes(std::string_view unit, Scratch& scratch) const;
  void start(std::string_view piece, Scratch& scratch) const;
  void merge(Scratch& scratch) const;

  bool byte_level_;
  bool fuse_unknown_;
  std::int32_t unknown_ = -1;
  MergeTable merges_;
  std::array<std::int32_t, 256> byte_ids_;                    // ids of single bytes as a piece has them; -1: none
  std::unordered_map<char32_t, std::int32_t> character_ids_;  // ids of characters of several bytes
  std::array<std::int32_t, 256> fallback_ids_;                // ids of "<0xNN>"; -1: none, or no byte_fallback
  Ids whole_;                                                 // pieces whose ids are known to be this one
  std::size_t longest_whole_ = 0;
};

}  // namespace hf
