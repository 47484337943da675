#pragma once
#include <capstan/base/export.h>

#include <string>
#include <vector>

#include "comm/call_log.h"

CAPSTAN_BEGIN_NAMESPACE
namespace comm {

/// What a rank tells the others about its collectives, as text for the store.
std::string describe_calls(CallLog& log);

/// One member of the group whose call does not end.
struct Member {
  int rank = 0;
  std::string host;
  std::string calls;  ///< its describe_calls(); empty when it did not answer
};

/// "all-reduce 'grad norm' of group dp, call 42, has not ended for 600 s …": who waits in it, who has not arrived
/// and where those are instead. `waiting` is the call that the reporting rank waits in.
std::string hang_report(const Call& waiting, const std::vector<Member>& members);

}  // namespace comm
CAPSTAN_END_NAMESPACE
