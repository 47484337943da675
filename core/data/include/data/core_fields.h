#pragma once
#include <capstan/base/export.h>
#include <capstan/data/host_batch.h>
#include <capstan/data/source.h>

#include <cstdint>
#include <optional>
#include <string>
#include <variant>
#include <vector>

CAPSTAN_BEGIN_NAMESPACE
namespace data {

/// A tensor of int64 that every batch has, whatever its data declare: core's own FieldSpec. From the one list of them
/// batches are collated and padded, brought to a device, shared by columns and recorded.
struct CoreField {
  /// Writes the values of a sequence's positions, one less than it has tokens: position t reads token t and
  /// predicts token t + 1. Such a field has rows x cols values.
  using OfPositions = void (*)(const SequenceView& sequence, std::int64_t* to);
  /// The value of a row that has one sequence more, from the value `before`. Such a field has a value a row.
  using OfRow = std::int64_t (*)(std::int64_t before, const Document& next);
  /// Follows from a complete batch, as this number of values.
  struct OfBatch {
    std::int64_t (*size)(const HostBatch& batch);
    std::vector<std::int64_t> (*values)(const HostBatch& batch);
  };

  std::string name;
  std::variant<OfPositions, OfRow, OfBatch> make;
  std::optional<std::int64_t> fill = std::nullopt;  ///< the value where no sequence is; none: the padding's id
  /// The member that has the values in host memory. Null, of one with OfPositions: HostBatch::fields has them, and
  /// nn::Batch::field gives them by name.
  std::vector<std::int64_t> HostBatch::*member = nullptr;
};

const std::vector<CoreField>& core_fields();

/// The number of its values in a batch.
std::int64_t size_of(const CoreField& field, const HostBatch& batch);

/// What HostBatch::fields has: the fields that the data declares, then those of core that have no member.
std::vector<FieldSpec> fields_of(const SampleForm& form);

/// Gives the batch core's fields, each filled. Rows, columns and the data's fields are known.
void add_core_fields(HostBatch& batch, std::int64_t pad_id);

/// Puts what core's fields have of a sequence into its place.
void put_core_fields(HostBatch& batch, const SequenceView& sequence, const Document& place);

}  // namespace data
CAPSTAN_END_NAMESPACE
