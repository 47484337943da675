#pragma once
#include <capstan/base/export.h>
#include <capstan/data/host_batch.h>
#include <capstan/data/source.h>

#include <cstddef>
#include <cstdint>
#include <vector>

CAPSTAN_BEGIN_NAMESPACE
namespace data {

/// Throws Error for a form that no batch can have: no sequence, a field without a name or with the name of one of core,
/// or two of the same name.
void check_form(const SampleForm& form);

/// Throws Error for a sample whose is_target is not as long as its tokens, or that has other sequences or fields than
/// the form says, or documents that no batch can have.
void check_form(const Sample& sample, const SampleForm& form);

/// The samples' form, and a sample, with only these sequences: `which` is ascending; empty: all. Throws Error for a
/// sample that has not the form.
SampleForm with_only(SampleForm form, const std::vector<std::size_t>& which);
Sample with_only(const Sample& sample, const SampleForm& form, const std::vector<std::size_t>& which);

/// The number of a field's values in a batch of this shape.
std::int64_t field_size(const FieldSpec& field, const HostBatch& batch);

/// Gives the batch what fields_of() lists, all values 0. Rows, columns and samples are known.
void add_fields(HostBatch& batch, const SampleForm& form);

/// Puts what a sample has for itself and for each of its sequences into the batch's place `index` of samples.
void put_fields(HostBatch& batch, const Sample& sample, std::int64_t index);

/// Puts what one of a sample's sequences has for each token where its labels are: `length` positions from `begin` on,
/// an index into all of the batch. `first` is how many tokens the sample's sequences before it have.
void put_token_fields(HostBatch& batch, const Sample& sample, std::int64_t first, std::int64_t begin,
                      std::int64_t length);

}  // namespace data
CAPSTAN_END_NAMESPACE
