#pragma once
#include <capstan/base/export.h>
#include <capstan/data/source.h>

#include <cstdint>
#include <optional>
#include <vector>

CAPSTAN_BEGIN_NAMESPACE
namespace data {

/// The label of a position that bears no loss (as in PyTorch's cross entropy).
inline constexpr std::int64_t ignored_label = -100;

/// Where a sample is in a batch.
struct Document {
  std::int64_t row = 0;
  std::int64_t begin = 0;   ///< its first column
  std::int64_t length = 0;  ///< positions
  std::int64_t id = -1;     ///< run-wide sample id
};

/// A micro-batch in host memory. Matrices are rows x cols, row-major.
///
/// A sample of T tokens gives T-1 positions: position t reads token t and predicts token t+1, so its label is
/// token t+1 if that one is a target, else ignored_label. Positions after a row's length hold the padding id and no
/// label; under causal attention they change nothing before them. A packed row holds several samples, one after
/// another.
struct HostBatch {
  std::int64_t rows = 0;
  std::int64_t cols = 0;
  std::vector<std::int64_t> tokens;      ///< rows x cols
  std::vector<std::int64_t> labels;      ///< rows x cols, shifted as said above
  std::vector<std::int64_t> lengths;     ///< rows: positions that are not padding
  std::vector<std::int64_t> sample_ids;  ///< rows: run-wide sample ids, -1 in an empty row; packed: each row's first
  std::vector<Document> documents;       ///< the samples of packed rows; empty: a row is one sample
  std::int64_t target_tokens = 0;        ///< labels that bear loss
  std::int64_t real_tokens = 0;          ///< sum of lengths

  /// All positions that are computed.
  std::int64_t padded_tokens() const { return rows * cols; }
};

/// One row to collate: no sample = an empty row, all padding and without a target.
struct Row {
  const Sample* sample = nullptr;
  std::int64_t id = -1;
};

struct Padding {
  std::int64_t pad_id = 0;
  std::int64_t multiple = 1;                                ///< cols is rounded up to a multiple of it
  std::optional<std::int64_t> fixed_length = std::nullopt;  ///< cols whatever the samples; `multiple` is then not used
};

/// The id that pads rows: the tokenizer's pad id, else its end id, else 0. It is also 0 where that id is not among the
/// model's vocab_size ids. Its positions never bear loss.
std::int64_t padding_id(const tokenizer::Tokenizer& tokenizer, std::int64_t vocab_size);

/// `columns` rounded up to `multiple`, but not beyond the model's `positions`.
std::int64_t padded_columns(std::int64_t columns, std::int64_t multiple, std::int64_t positions);

/// Puts each sample into a row. cols is the longest row's positions (at least 1). Throws Error for a sample whose
/// is_target is not as long as its tokens, and for one with more positions than fixed_length.
HostBatch collate(const std::vector<Row>& rows, const Padding& padding);

/// Puts samples one after another into rows of at most `capacity` positions (or the longest sample's, if that is
/// more): longest first, into as few rows as it takes to put each into the first one with room, and of these into the
/// emptiest where that makes the fullest row shorter. The same loss as collate's in fewer positions. Empty rows are
/// left out; cols is the fullest row's, rounded up to `padding.multiple`; `padding.fixed_length` is not used.
HostBatch pack(const std::vector<Row>& rows, const Padding& padding, std::int64_t capacity);

}  // namespace data
CAPSTAN_END_NAMESPACE
