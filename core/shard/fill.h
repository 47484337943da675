#pragma once
#include <capstan/base/export.h>
#include <capstan/layout/source.h>

#include <vector>

CAPSTAN_BEGIN_NAMESPACE
namespace shard {

/// A box of a record and where its values go: [box.numel()].
struct FillTask {
  const layout::Param* record = nullptr;
  layout::Box box;
  at::Tensor out;
};

/// Fills all of them. If the source allows several threads, ATen's threads fill parts of some 16 MiB, so that one large
/// table does not keep all but one waiting.
void fill_all(layout::Source& source, const std::vector<FillTask>& tasks);

}  // namespace shard
CAPSTAN_END_NAMESPACE
