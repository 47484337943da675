#pragma once
#include <capstan/base/export.h>
#include <capstan/comm/group.h>
#include <capstan/layout/source.h>

#include <string>
#include <vector>

CAPSTAN_BEGIN_NAMESPACE
namespace shard {

class BucketParameters;
struct Shared;

/// Reads this rank's boxes of every record of a bucket into what it keeps. With `everyone` the first of these ranks
/// scatters its values to all; returns the names of records of which this rank had others.
std::vector<std::string> fill(BucketParameters& bucket, const Shared& shared, layout::Source& source,
                              comm::Group* everyone);

/// A box of a record and where its values go: [box.numel()].
struct FillTask {
  const layout::Param* record = nullptr;
  layout::Box box;  ///< the part of the record that is read
  at::Tensor out;   ///< its place, flat
};

/// Fills all of them. If the source allows several threads, ATen's threads fill parts of some 16 MiB, so that one large
/// table does not keep all but one waiting.
void fill_all(layout::Source& source, const std::vector<FillTask>& tasks);

}  // namespace shard
CAPSTAN_END_NAMESPACE
