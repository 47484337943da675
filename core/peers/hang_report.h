#pragma once
#include <capstan/base/export.h>

#include <string>
#include <vector>

#include "peers/call_log.h"

CAPSTAN_BEGIN_NAMESPACE
namespace peers {

/// This rank's collectives, as text for the store.
std::string describe_calls(CallLog& log);

/// A rank of the run while a collective does not end.
struct Position {
  int rank = 0;
  std::string host;
  bool in_group = false;  ///< a member of the group of the call
  std::string calls;      ///< its describe_calls(); empty when it did not answer
};

/// Where the ranks are, in words: "all-gather 'blocks.13' of group shard, call 42, has not ended for 600 s: …", a line
/// for the ranks that wait in it and for each place where others are, then the conclusion. `waiting` is the call that
/// the reporting rank waits in; ranks outside of its group are listed if they are in a call themselves.
std::string hang_report(const CollectiveCall& waiting, const std::vector<Position>& ranks);

}  // namespace peers
CAPSTAN_END_NAMESPACE
