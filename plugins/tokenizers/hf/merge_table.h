#pragma once
#include <cstddef>
#include <cstdint>
#include <vector>

namespace hf {

/// Which pairs of ids merge, how early, and into what: open addressing over one array, filled once, so that a look-up
/// is mostly one cache miss. Vocabularies have up to some 500,000 merges, and an encoder asks for every pair it sees.
class MergeTable {
 public:
  struct Merge {
    std::uint32_t rank = none;  ///< the smaller is done first; `none`: the pair does not merge
    std::int32_t id = 0;        ///< what it becomes
  };
  static constexpr std::uint32_t none = 0xFFFFFFFF;

  explicit MergeTable(std::size_t merges) {
    std::size_t slots = 16;
    while (slots < 2 * merges) slots *= 2;
    slots_.resize(slots);
  }
  /// A pair that is there already gets the new rank and id.
  void set(std::int32_t left, std::int32_t right, Merge merge) {
    const auto wanted = key(left, right);
    auto at = slot(wanted);
    while (slots_[at].key != empty && slots_[at].key != wanted) at = (at + 1) & (slots_.size() - 1);
    slots_[at] = {wanted, merge};
  }
  Merge find(std::int32_t left, std::int32_t right) const {
    const auto wanted = key(left, right);
    for (auto at = slot(wanted);; at = (at + 1) & (slots_.size() - 1)) {
      if (slots_[at].key == wanted) return slots_[at].merge;
      if (slots_[at].key == empty) return {};
    }
  }

 private:
  static constexpr std::uint64_t empty = ~std::uint64_t{0};  // ids are not negative, so no pair has this key
  struct Slot {
    std::uint64_t key = empty;
    Merge merge;
  };
  static std::uint64_t key(std::int32_t left, std::int32_t right) {
    return static_cast<std::uint64_t>(left) << 32U | static_cast<std::uint32_t>(right);
  }
  std::size_t slot(std::uint64_t key) const {
    const auto mixed = (key ^ key >> 29U) * 0x9E3779B97F4A7C15U;
    return static_cast<std::size_t>(mixed ^ mixed >> 32U) & (slots_.size() - 1);
  }

  std::vector<Slot> slots_;
};

}  // namespace hf
