#pragma once
#include <capstan/base/export.h>
#include <capstan/data/host_batch.h>
#include <capstan/data/source.h>

#include <cstdint>
#include <vector>

#include "data/padding.h"

CAPSTAN_BEGIN_NAMESPACE
namespace data {

/// One sample to collate: no sample = an empty place, whose rows are all padding and without a target.
struct Row {
  const Sample* sample = nullptr;
  std::int64_t id = -1;
};

/// Puts each sequence into a row, those of a sample one after another. cols is the longest row's positions, and at
/// least `padding.least`. The id of a sample's sequence is the sample's times the form's sequences, plus which of them
/// it is. Throws Error for a sample that has not the form, and for one with more positions than fixed_length.
HostBatch collate(const std::vector<Row>& rows, const Padding& padding, const SampleForm& form = {});

/// Puts sequences one after another into rows of at most `capacity` positions (or the longest one's, if that is more):
/// longest first, into as few rows as it takes to put each into the first one with room, and of these into the
/// emptiest where that makes the fullest row shorter. A sample's documents (Sample::begins) stay together and see each
/// other no more than samples do. The same loss as collate's in fewer positions. Empty places are
/// left out, so the batch has as many samples as there are; cols is the fullest row's, at
/// least `padding.least` and rounded up to `padding.multiple`; `padding.fixed_length` is not used.
HostBatch pack(const std::vector<Row>& rows, const Padding& padding, std::int64_t capacity,
               const SampleForm& form = {});

}  // namespace data
CAPSTAN_END_NAMESPACE
