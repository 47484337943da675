#pragma once
#include <capstan/base/export.h>
#include <capstan/data/source.h>

#include <cstdint>
#include <vector>

CAPSTAN_BEGIN_NAMESPACE
namespace data {

/// The label of a position that bears no loss (as in PyTorch's cross entropy).
inline constexpr std::int64_t ignored_label = -100;

/// Where a sequence is in a batch of packed rows.
struct Document {
  std::int64_t row = 0;
  std::int64_t begin = 0;     ///< its first column
  std::int64_t length = 0;    ///< positions
  std::int64_t id = -1;       ///< run-wide id
  std::int64_t sequence = 0;  ///< its index among the batch's sequences
};

/// A field's values in a batch: rows x cols where they are per token, else one for each sequence or sample. The value
/// of a token stands at the position that predicts it, as its label does; 0 where no sequence is.
struct HostField {
  FieldSpec spec;
  FieldValues values;
};

/// A micro-batch in host memory. Matrices are rows x cols, row-major.
///
/// A sequence of T tokens gives T-1 positions: position t reads token t and predicts token t+1, so its label is
/// token t+1 if that one is a target, else ignored_label. Positions after a row's length hold the padding id and no
/// label; under causal attention they change nothing before them. A packed row holds several sequences, one after
/// another.
///
/// Sequences are counted sample by sample: sequence q is part of sample q / per_sample. Where rows are not packed, row
/// q holds sequence q.
struct HostBatch {
  std::int64_t rows = 0;
  std::int64_t cols = 0;
  std::vector<std::int64_t> tokens;      ///< rows x cols
  std::vector<std::int64_t> labels;      ///< rows x cols, shifted as said above
  std::vector<std::int64_t> lengths;     ///< rows: positions that are not padding
  std::vector<std::int64_t> sample_ids;  ///< rows: run-wide ids, -1 in an empty row; packed: each row's first
  std::vector<Document> documents;       ///< the sequences of packed rows; empty: a row is one sequence
  std::int64_t target_tokens = 0;        ///< labels that bear loss
  std::int64_t real_tokens = 0;          ///< sum of lengths
  std::int64_t per_sample = 1;           ///< sequences of a sample
  std::int64_t samples = 0;              ///< places of samples, empty ones too
  std::int64_t real_samples = 0;         ///< samples that there are; each of Sample::begins counts as one
  std::vector<HostField> fields;         ///< the fields that the data declares, in its order
  /// The same samples, but other sequences of theirs: for passes over these (objective::PassSpec::sequences).
  std::vector<HostBatch> others = {};

  /// All positions that are computed.
  std::int64_t padded_tokens() const { return rows * cols; }
};

/// By source (SampleForm::sources): positions of its samples in a batch, and how many of these bear loss.
struct SourceTokens {
  std::vector<double> real;
  std::vector<double> target;
};
/// The batch has source_field, since its data have this number of sources.
SourceTokens tokens_by_source(const HostBatch& batch, std::size_t sources);

}  // namespace data
CAPSTAN_END_NAMESPACE
