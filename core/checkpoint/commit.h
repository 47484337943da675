#pragma once
#include <capstan/base/export.h>
#include <capstan/comm/group.h>

#include <exception>
#include <filesystem>
#include <string>
#include <vector>

#include "checkpoint/checkpoint.h"
#include "record/manifest.h"

CAPSTAN_BEGIN_NAMESPACE
namespace checkpoint {

/// Writes this rank's boxes to weights-RRRRR-of-WWWWW.safetensors in the folder (ranks from 0; no file if there is
/// nothing to write) and returns their manifest entries. Boxes without elements are left out, their tensors are not.
Contents write_file_of_rank(const std::filesystem::path& folder, int rank, int world_size,
                            const std::vector<TensorBox>& boxes);

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
