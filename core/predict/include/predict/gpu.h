#pragma once
#include <capstan/base/export.h>

#include <cstdint>
#include <string>

CAPSTAN_BEGIN_NAMESPACE
namespace predict {

/// A GPU that a prediction is held against.
struct Gpu {
  std::string name;
  std::int64_t bytes = 0;  ///< bytes that CUDA reports
  int capability = 0;      ///< compute capability, 70 for 7.0; 0: not known

  /// CUDA's context, NCCL's buffers and gaps between tensors: what a peak of tensors leaves out.
  static constexpr std::int64_t reserve = std::int64_t{3} << 29;
  std::int64_t room() const { return bytes - reserve; }
};

/// The ranks of a run and where they are.
struct RankCounts {
  int all = 1;
  int nodes = 0;  ///< each has as many ranks; 0: not said, all are on one
};

/// A prediction held against a GPU.
struct Fit {
  bool fits = false;
  std::string text;  ///< for people: whether, by how much, and where it does not fit what would help
};

/// What a run measured on the rank that used most, bytes; 0 where it was not.
struct Actual {
  std::int64_t setup = 0;      ///< in tensors on the GPU before the first step
  std::int64_t device = 0;     ///< the most in tensors on the GPU while steps ran
  double step_s = 0;           ///< mean time of a step, the longest left out
  std::string gpu = {};        ///< the GPU as its driver calls it
  std::int64_t gpu_bytes = 0;  ///< its memory
};

}  // namespace predict
CAPSTAN_END_NAMESPACE
