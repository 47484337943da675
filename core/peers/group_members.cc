#include "peers/group_members.h"

#include <capstan/base/text.h>

#include <stdexcept>

#include "peers/call_log.h"

namespace capstan::peers {

void GroupMembers::add(const std::string& group, const std::vector<int>& ranks) {
  const std::scoped_lock lock(mutex_);
  if (!members_.emplace(group, ranks).second) throw std::logic_error(cat("the group name '", group, "' is used twice"));
}

std::vector<int> GroupMembers::of(const std::string& group) const {
  if (const auto ends = transfer_ends(group)) return *ends;
  const std::scoped_lock lock(mutex_);
  const auto found = members_.find(group);
  return found == members_.end() ? std::vector<int>() : found->second;
}

}  // namespace capstan::peers
