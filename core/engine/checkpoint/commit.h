#pragma once
#include <capstan/base/export.h>
#include <capstan/comm/group.h>

#include <exception>
#include <filesystem>
#include <string>
#include <vector>

#include "checkpoint/checkpoint.h"

CAPSTAN_BEGIN_NAMESPACE
namespace checkpoint {

/// What one commit needs to know.
struct Order {
  std::filesystem::path target;
  std::string attempt = "0";
  Meta meta;
  AtPoint at_point;
  Keep keep;
  bool in_series = false;      ///< a run's numbered checkpoint: update `latest`, apply retention
  std::exception_ptr failure;  ///< this rank has already failed, and all must learn of it
};

/// The whole commit, as a collective of the group: see checkpoint.h. Returns everything but the stall.
Saved commit(const Order& order, comm::Group& group, const std::vector<TensorBox>& boxes);

/// The bytes of all boxes' data.
std::int64_t bytes_of(const std::vector<TensorBox>& boxes);

}  // namespace checkpoint
CAPSTAN_END_NAMESPACE
