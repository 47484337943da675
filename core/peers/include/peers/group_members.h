#pragma once
#include <capstan/base/export.h>

#include <map>
#include <mutex>
#include <string>
#include <vector>

CAPSTAN_BEGIN_NAMESPACE
namespace peers {

/// The world ranks of each group of this rank. Thread-safe.
class GroupMembers {
 public:
  /// Throws if a group has this name already.
  void add(const std::string& group, const std::vector<int>& ranks);
  /// Those of a group, or of a transfer's ends; none of a name that is no group's.
  std::vector<int> of(const std::string& group) const;

 private:
  mutable std::mutex mutex_;
  std::map<std::string, std::vector<int>> members_;
};

}  // namespace peers
CAPSTAN_END_NAMESPACE
