#include "assembly/collate.h"

#include <capstan/base/error.h>
#include <capstan/base/text.h>

#include <algorithm>
#include <utility>

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

std::int64_t rounded_up(std::int64_t columns, std::int64_t multiple) {
  return (columns + multiple - 1) / multiple * multiple;
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
  return padding.fixed_length ? *padding.fixed_length : rounded_up(longest, padding.multiple);
}

}  // namespace

std::int64_t padded_columns(std::int64_t columns, std::int64_t multiple, std::int64_t positions) {
  return std::min(rounded_up(columns, multiple), positions);
}

std::int64_t padding_id(const tokenizer::Tokenizer& tokenizer, std::int64_t vocab_size) {
  const auto id = tokenizer.pad_id() >= 0 ? tokenizer.pad_id() : tokenizer.end_id();
  return id >= 0 && id < vocab_size ? id : 0;
}

namespace {

HostBatch empty_batch(std::int64_t rows, std::int64_t cols, std::int64_t pad_id) {
  HostBatch batch;
  batch.rows = rows;
  batch.cols = cols;
  batch.tokens.assign(static_cast<std::size_t>(batch.padded_tokens()), pad_id);
  batch.labels.assign(batch.tokens.size(), ignored_label);
  return batch;
}

// Writes a sample's positions from `begin` on, an index into all of the batch.
void put(HostBatch& batch, const Sample& sample, std::int64_t begin, std::int64_t length) {
  for (std::int64_t t = 0; t < length; ++t) {
    const auto place = static_cast<std::size_t>(begin + t);
    const auto from = static_cast<std::size_t>(t);
    batch.tokens[place] = sample.tokens[from];
    if (!sample.is_target[from + 1]) continue;
    batch.labels[place] = sample.tokens[from + 1];
    ++batch.target_tokens;
  }
  batch.real_tokens += length;
}

/// The rows of samples: how many positions of each row are taken, and each sample's row.
struct Stand {
  std::vector<std::int64_t> taken;
  std::vector<std::size_t> rows;

  void add(std::size_t row, std::int64_t length) {
    rows.push_back(row);
    taken[row] += length;
  }
  std::int64_t longest() const { return *std::max_element(taken.begin(), taken.end()); }
};

// Puts each sample into the first row with room for it.
Stand first_fit(const std::vector<std::int64_t>& lengths, std::int64_t most) {
  Stand stand;
  for (const auto length : lengths) {
    const auto room = std::find_if(stand.taken.begin(), stand.taken.end(),
                                   [&](std::int64_t taken) { return taken + length <= most; });
    const auto row = static_cast<std::size_t>(room - stand.taken.begin());
    if (room == stand.taken.end()) stand.taken.push_back(0);
    stand.add(row, length);
  }
  return stand;
}

// Puts each sample into the emptiest of `rows` rows.
Stand evenly(const std::vector<std::int64_t>& lengths, std::size_t rows) {
  Stand stand{std::vector<std::int64_t>(rows, 0), {}};
  for (const auto length : lengths) {
    const auto emptiest = std::min_element(stand.taken.begin(), stand.taken.end());
    stand.add(static_cast<std::size_t>(emptiest - stand.taken.begin()), length);
  }
  return stand;
}

// Rows are padded to the fullest one: as few as the first fit needs, and as even as they can be.
Stand fewest_even_rows(const std::vector<std::int64_t>& lengths, std::int64_t most) {
  auto stand = first_fit(lengths, most);
  auto even = evenly(lengths, stand.taken.size());
  return even.longest() < stand.longest() ? even : stand;
}

}  // namespace

HostBatch collate(const std::vector<Row>& rows, const Padding& padding) {
  CAPSTAN_ASSERT(padding.pad_id >= 0 && padding.multiple >= 1);
  auto batch = empty_batch(static_cast<std::int64_t>(rows.size()), columns(rows, padding), padding.pad_id);
  for (std::size_t r = 0; r < rows.size(); ++r) {
    const auto length = positions(rows[r]);
    batch.lengths.push_back(length);
    batch.sample_ids.push_back(rows[r].id);
    if (length > 0) put(batch, *rows[r].sample, static_cast<std::int64_t>(r) * batch.cols, length);
  }
  return batch;
}

HostBatch pack(const std::vector<Row>& rows, const Padding& padding, std::int64_t capacity) {
  CAPSTAN_ASSERT(padding.pad_id >= 0 && padding.multiple >= 1 && capacity >= 1);
  struct Part {
    const Sample* sample;
    Document document;
  };
  std::vector<Part> parts;
  for (const auto& row : rows) {
    const auto length = positions(row);
    if (length > 0) parts.push_back({row.sample, {0, 0, length, row.id}});
  }
  if (parts.empty()) return collate({Row{}}, {padding.pad_id, padding.multiple});
  std::stable_sort(parts.begin(), parts.end(),
                   [](const Part& a, const Part& b) { return a.document.length > b.document.length; });
  std::vector<std::int64_t> lengths;
  for (const auto& part : parts) lengths.push_back(part.document.length);
  const auto stand = fewest_even_rows(lengths, std::max(capacity, lengths.front()));
  const auto cols = rounded_up(stand.longest(), padding.multiple);
  auto batch = empty_batch(static_cast<std::int64_t>(stand.taken.size()), cols, padding.pad_id);
  batch.sample_ids.assign(stand.taken.size(), -1);
  batch.lengths.assign(stand.taken.size(), 0);
  for (std::size_t i = 0; i < parts.size(); ++i) {
    auto& [sample, document] = parts[i];
    const auto row = stand.rows[i];
    if (batch.lengths[row] == 0) batch.sample_ids[row] = document.id;
    document.row = static_cast<std::int64_t>(row);
    document.begin = std::exchange(batch.lengths[row], batch.lengths[row] + document.length);
    put(batch, *sample, document.row * cols + document.begin, document.length);
    batch.documents.push_back(document);
  }
  return batch;
}

}  // namespace capstan::data
