#include "data/collate.h"

#include <capstan/base/error.h>
#include <capstan/base/text.h>

#include <algorithm>

namespace capstan::data {
namespace {

std::int64_t positions(const Row& row) {
  if (row.sample == nullptr || row.sample->tokens.empty()) return 0;
  const auto& sample = *row.sample;
  if (sample.tokens.size() != sample.is_target.size()) {
    throw Error(cat("sample '", sample.id, "' has ", sample.tokens.size(), " tokens but is_target has ",
                    sample.is_target.size()),
                "the data plugin must give one flag a token");
  }
  return static_cast<std::int64_t>(sample.tokens.size()) - 1;
}

std::int64_t columns(const std::vector<Row>& rows, const Padding& padding) {
  std::int64_t longest = 1;
  for (const auto& row : rows) {
    const auto length = positions(row);
    longest = std::max(longest, length);
    if (padding.fixed_length && length > *padding.fixed_length) {
      throw Error(cat("sample '", row.sample->id, "' needs ", length, " positions, the batch has a fixed length of ",
                      *padding.fixed_length),
                  cat("raise the fixed length, or lower data.max_length to ", *padding.fixed_length + 1));
    }
  }
  if (padding.fixed_length) return *padding.fixed_length;
  return (longest + padding.multiple - 1) / padding.multiple * padding.multiple;
}

}  // namespace

std::int64_t padding_id(const Tokenizer& tokenizer) {
  if (tokenizer.pad_id() >= 0) return tokenizer.pad_id();
  return std::max<std::int64_t>(0, tokenizer.end_id());
}

HostBatch collate(const std::vector<Row>& rows, const Padding& padding) {
  CAPSTAN_ASSERT(padding.pad_id >= 0 && padding.multiple >= 1);
  HostBatch batch;
  batch.rows = static_cast<std::int64_t>(rows.size());
  batch.cols = columns(rows, padding);
  batch.tokens.assign(static_cast<std::size_t>(batch.padded_tokens()), padding.pad_id);
  batch.labels.assign(batch.tokens.size(), ignored_label);
  for (std::size_t r = 0; r < rows.size(); ++r) {
    const auto length = positions(rows[r]);
    batch.lengths.push_back(length);
    batch.sample_ids.push_back(rows[r].id);
    batch.real_tokens += length;
    const auto begin = r * static_cast<std::size_t>(batch.cols);
    for (std::size_t t = 0; t < static_cast<std::size_t>(length); ++t) {
      const auto& sample = *rows[r].sample;
      batch.tokens[begin + t] = sample.tokens[t];
      if (!sample.is_target[t + 1]) continue;
      batch.labels[begin + t] = sample.tokens[t + 1];
      ++batch.target_tokens;
    }
  }
  return batch;
}

}  // namespace capstan::data
