#include "splits.h"

#include <capstan/base/text.h>

#include <vector>

namespace tensor_parallel {

using capstan::cat;

namespace {

bool fits(std::int64_t queries, std::int64_t keys, std::int64_t ranks) {
  return queries % ranks == 0 && (keys % ranks == 0 || ranks % keys == 0);
}

}  // namespace

std::optional<SplitFault> heads_fault(std::int64_t queries, std::int64_t keys, std::int64_t ranks) {
  if (fits(queries, keys, ranks)) return {};
  std::vector<std::string> sizes;
  for (std::int64_t size = 1; size <= queries; ++size) {
    if (fits(queries, keys, size)) sizes.push_back(std::to_string(size));
  }
  const auto fix = cat("use one of ", capstan::join(sizes));
  if (queries % ranks != 0)
    return SplitFault{cat("the model's ", queries, " attention heads are not divisible by it"), fix};
  return SplitFault{cat("the model's ", keys,
                        " key and value heads can neither be divided by it nor each be held by as "
                        "many ranks"),
                    fix};
}

HeadSplit split_heads(std::int64_t keys, std::int64_t ranks) { return {keys < ranks ? ranks / keys : 1}; }

bool gives_all_some(std::int64_t n, std::int64_t ranks) { return (ranks - 1) * ((n + ranks - 1) / ranks) < n; }

}  // namespace tensor_parallel
