#include "data/loss_rows.h"

#include <capstan/base/error.h>

#include <algorithm>
#include <bit>

namespace capstan::data {

std::int64_t loss_rows(std::int64_t targets, std::int64_t positions) {
  CAPSTAN_ASSERT(targets >= 0 && targets <= positions);
  constexpr std::int64_t tile = 256;  // what products compute at once
  const auto power = static_cast<std::int64_t>(std::bit_ceil(static_cast<std::uint64_t>(std::max(targets, tile))));
  const auto less = power / 4 * 3;
  const auto rows = targets <= less && less % tile == 0 ? less : power;
  return 4 * rows <= 3 * positions ? rows : positions;
}

std::int64_t loss_rows(const HostBatch& batch) { return loss_rows(batch.target_tokens, batch.padded_tokens()); }

std::vector<std::int64_t> loss_row_list(const HostBatch& batch) {
  std::vector<std::int64_t> rows;
  const auto count = loss_rows(batch);
  if (count == batch.padded_tokens()) return rows;
  rows.reserve(static_cast<std::size_t>(count));
  auto others = count - batch.target_tokens;
  for (std::size_t i = 0; i < batch.labels.size(); ++i) {
    if (batch.labels[i] == ignored_label && others-- <= 0) continue;
    rows.push_back(static_cast<std::int64_t>(i));
  }
  CAPSTAN_ASSERT(static_cast<std::int64_t>(rows.size()) == count);
  return rows;
}

}  // namespace capstan::data
