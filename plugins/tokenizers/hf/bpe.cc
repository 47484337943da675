#include "bpe.h"

#include <capstan/base/error.h>

#include <algorithm>
#include <cstdio>
#include <utility>

#include "byte_level.h"
#include "characters.h"

namespace hf {

using namespace capstan;

namespace {

// Adds a symbol, and the bytes of the piece that it stands for.
void append(Bpe::Scratch& scratch, std::int32_t id, std::size_t bytes) {
  const auto at = static_cast<std::int32_t>(scratch.symbols.size());
  scratch.symbols.push_back({id, at - 1, at + 1, {}});
  if (scratch.measures) scratch.units.push_back({std::exchange(scratch.skipped, 0), bytes});
}

// What merged symbols stand for follows from where the next one begins.
void measure(Bpe::Scratch& scratch) {
  for (std::size_t at = 0; at < scratch.symbols.size(); ++at) {
    const auto& unit = scratch.units[at];
    if (scratch.symbols[at].id >= 0) {
      scratch.extents.push_back(unit);
    } else {
      scratch.extents.back().size += unit.skipped + unit.size;
    }
  }
}

template <class Ids>
std::int32_t find_id(const Ids& ids, std::string_view text) {
  const auto found = ids.find(text);
  return found == ids.end() ? -1 : found->second;
}

std::string byte_token(unsigned byte) {
  std::array<char, 8> text{};
  std::snprintf(text.data(), text.size(), "<0x%02X>", byte);
  return text.data();
}

}  // namespace

Bpe::Bpe(const BpeSpec& spec, bool byte_level)
    : byte_level_(byte_level), fuse_unknown_(spec.fuse_unknown), merges_(spec.merges.size()) {
  const Ids vocabulary(spec.vocabulary.begin(), spec.vocabulary.end());
  if (!spec.unknown.empty()) unknown_ = find_id(vocabulary, spec.unknown);
  add_characters(vocabulary, spec.byte_fallback);
  std::uint32_t rank = 0;
  for (const auto& [left, right] : spec.merges) {
    const auto merged = find_id(vocabulary, left + right);
    CAPSTAN_ASSERT(merged >= 0);  // the file's reader checks its merges
    merges_.set(find_id(vocabulary, left), find_id(vocabulary, right), {rank++, merged});
  }
  find_whole(spec);
}

void Bpe::add_characters(const Ids& vocabulary, bool byte_fallback) {
  byte_ids_.fill(-1);
  fallback_ids_.fill(-1);
  for (unsigned byte = 0; byte < 256; ++byte) {
    const std::string text(1, static_cast<char>(byte));
    if (byte_level_ || byte < 0x80) byte_ids_[byte] = find_id(vocabulary, byte_level_ ? byte_level_text(text) : text);
    if (byte_fallback) fallback_ids_[byte] = find_id(vocabulary, byte_token(byte));
  }
  if (byte_level_) return;
  for (const auto& [text, id] : vocabulary) {
    if (text.empty()) continue;
    const auto character = character_at(text, 0);
    if (character.size > 1 && character.size == text.size()) character_ids_[character.value] = id;
  }
}

// Most words of a text are tokens that merging would assemble; each is tested once, here. With ignore_merges every
// token is used as it is.
void Bpe::find_whole(const BpeSpec& spec) {
  Scratch scratch;
  std::vector<std::int64_t> ids;
  std::size_t longest = 0;
  for (const auto& [token, id] : spec.vocabulary) {
    auto piece = byte_level_ ? byte_level_bytes(token) : std::optional<std::string>(token);
    if (!piece || piece->empty()) continue;
    ids.clear();
    if (!spec.ignore_merges) encode(*piece, scratch, ids);
    if (!spec.ignore_merges && (ids.size() != 1 || ids[0] != id)) continue;
    longest = std::max(longest, piece->size());
    whole_.emplace(std::move(*piece), id);
  }
  longest_whole_ = longest;  // from here on encode() looks there
}

std::int32_t Bpe::unit_id(std::string_view unit) const {
  if (unit.size() == 1) return byte_ids_[static_cast<unsigned char>(unit[0])];
  const auto found = character_ids_.find(character_at(unit, 0).value);
  return found == character_ids_.end() ? -1 : found->second;
}

// Adds the tokens of a unit's bytes; false, and nothing is added, if one of the bytes has no token.
bool Bpe::add_bytes(std::string_view unit, Scratch& scratch) const {
  const auto text = byte_level_ ? byte_level_text(unit) : std::string(unit);
  const auto fallback = [&](char byte) { return fallback_ids_[static_cast<unsigned char>(byte)]; };
  if (!std::all_of(text.begin(), text.end(), [&](char byte) { return fallback(byte) >= 0; })) return false;
  for (std::size_t i = 0; i < text.size(); ++i) append(scratch, fallback(text[i]), i < unit.size() ? 1 : 0);
  return true;
}

void Bpe::start(std::string_view piece, Scratch& scratch) const {
  auto& symbols = scratch.symbols;
  symbols.clear();
  scratch.units.clear();
  scratch.skipped = 0;
  // An unknown token waits for others that fuse with it, and byte tokens overtake it, as in the `tokenizers` package.
  std::size_t waits = 0;  // bytes that it stands for
  while (!piece.empty()) {
    const auto unit = piece.substr(0, byte_level_ ? 1 : character_at(piece, 0).size);
    piece.remove_prefix(unit.size());
    if (const auto id = unit_id(unit); id >= 0) {
      if (waits > 0) append(scratch, unknown_, waits);
      waits = 0;
      append(scratch, id, unit.size());
    } else if (!add_bytes(unit, scratch)) {
      if (waits > 0 && !fuse_unknown_) append(scratch, unknown_, std::exchange(waits, 0));
      (unknown_ >= 0 ? waits : scratch.skipped) += unit.size();
    }
  }
  if (waits > 0) append(scratch, unknown_, waits);
  if (!symbols.empty()) symbols.back().next = -1;
}

void Bpe::merge(Scratch& scratch) const {
  auto& symbols = scratch.symbols;
  auto& heap = scratch.heap;
  heap.clear();
  // Does the symbol at `at` merge with the next one? True: the pair was pushed to the back of the heap.
  const auto look = [&](std::int32_t at) {
    auto& symbol = symbols[static_cast<std::size_t>(at)];
    symbol.merge = {};
    if (symbol.next < 0) return false;
    symbol.merge = merges_.find(symbol.id, symbols[static_cast<std::size_t>(symbol.next)].id);
    if (symbol.merge.rank == MergeTable::none) return false;
    heap.push_back(static_cast<std::uint64_t>(symbol.merge.rank) << 32U | static_cast<std::uint32_t>(at));
    return true;
  };
  const auto push = [&](std::int32_t at) {
    if (look(at)) std::push_heap(heap.begin(), heap.end(), std::greater<>());
  };
  for (std::size_t at = 0; at + 1 < symbols.size(); ++at) look(static_cast<std::int32_t>(at));
  std::make_heap(heap.begin(), heap.end(), std::greater<>());
  while (!heap.empty()) {
    std::pop_heap(heap.begin(), heap.end(), std::greater<>());
    const auto top = heap.back();
    heap.pop_back();
    const auto at = static_cast<std::int32_t>(top & 0xFFFFFFFFU);
    auto& symbol = symbols[static_cast<std::size_t>(at)];
    if (symbol.merge.rank != top >> 32U) continue;  // this pair is no more
    auto& right = symbols[static_cast<std::size_t>(symbol.next)];
    symbol.id = symbol.merge.id;
    symbol.next = right.next;
    right.id = -1;
    right.merge = {};
    if (symbol.next >= 0) symbols[static_cast<std::size_t>(symbol.next)].previous = at;
    if (symbol.previous >= 0) push(symbol.previous);
    push(at);
  }
}

void Bpe::encode(std::string_view piece, Scratch& scratch, std::vector<std::int64_t>& ids) const {
  scratch.extents.clear();
  if (piece.size() <= longest_whole_) {
    if (const auto found = whole_.find(piece); found != whole_.end()) {
      ids.push_back(found->second);
      if (scratch.measures) scratch.extents.push_back({0, piece.size()});
      return;
    }
  }
  start(piece, scratch);
  merge(scratch);
  if (scratch.measures) measure(scratch);
  for (const auto& symbol : scratch.symbols) {
    if (symbol.id >= 0) ids.push_back(symbol.id);
  }
}

}  // namespace hf
