#pragma once
#include <cstdint>
#include <optional>
#include <string>

namespace tensor_parallel {

/// How attention heads go onto the ranks.
struct HeadSplit {
  std::int64_t key_copies = 1;  ///< neighbouring ranks that hold the same key and value head
};

/// What is wrong with so many ranks for these heads, and how to mend it.
struct SplitFault {
  std::string what;
  std::string fix;
};

/// Query heads are divided evenly. Key heads too; where they are fewer than ranks, each is held by as many neighbours.
std::optional<SplitFault> heads_fault(std::int64_t queries, std::int64_t keys, std::int64_t ranks);
HeadSplit split_heads(std::int64_t keys, std::int64_t ranks);

/// Do all ranks get something of `n` rows that are cut by layout::Cut's rule?
bool gives_all_some(std::int64_t n, std::int64_t ranks);

}  // namespace tensor_parallel
