#pragma once
#include <capstan/base/export.h>
#include <capstan/record/checkpoints.h>

#include <cstdint>
#include <functional>

CAPSTAN_BEGIN_NAMESPACE
namespace checkpoint {

/// Where a crash test may end the process. Points of rank 0 only are marked so.
enum class CommitPoint : int {
  begun = 1,       ///< rank 0: the temporary folder is there, empty
  writing = 2,     ///< this rank's file is about to be written
  written = 3,     ///< this rank's file is on disk
  agreed = 4,      ///< rank 0: all ranks' files are on disk; there is no manifest
  manifest = 5,    ///< rank 0: the manifest is on disk, in the temporary folder
  aside = 6,       ///< rank 0, when one of this name is replaced: the old one is renamed
  renamed = 7,     ///< rank 0: it has its name, which may not be on disk
  committed = 8,   ///< rank 0: the name is on disk; `latest` still names the one before
  latest = 9,      ///< rank 0: `latest` names it
  retention = 10,  ///< rank 0, for each one that is not kept: it is marked for removal
};
using AtPoint = std::function<void(int point)>;

/// Which committed checkpoints are kept.
struct Keep {
  std::int64_t last = 0;  ///< how many of the newest are kept; 0: all
  BestRule best;          ///< also the best by this rule; as long as it finds none, the one that was the best before
};

}  // namespace checkpoint
CAPSTAN_END_NAMESPACE
