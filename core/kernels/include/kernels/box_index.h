#pragma once
#include <capstan/base/host_device.h>

#include <cstdint>

namespace capstan::kernels {

/// Maps an element's index in a contiguous box to its flat index in the logical tensor of which the box is a slice.
/// The innermost stride is 1: `run()` neighbours of the box are neighbours in the logical tensor.
struct BoxIndex {
  static constexpr int max_dims = 8;
  int dims = 0;
  std::int64_t size[max_dims] = {};
  std::int64_t stride[max_dims] = {};
  std::int64_t base = 0;

  CAPSTAN_HOST_DEVICE std::int64_t operator()(std::int64_t local) const {
    std::int64_t index = base;
    for (int dim = dims - 1; dim > 0; --dim) {
      index += local % size[dim] * stride[dim];
      local /= size[dim];
    }
    return index + local * stride[0];
  }
  CAPSTAN_HOST_DEVICE std::int64_t run() const { return size[dims - 1]; }

  /// Whether each aligned group of `count` elements is an aligned group of `count` elements of the logical tensor.
  bool aligned(std::int64_t count) const {
    bool yes = base % count == 0 && run() % count == 0;
    for (int dim = 0; dim + 1 < dims; ++dim) {
      yes = yes && stride[dim] % count == 0;
    }
    return yes;
  }

  /// Calls body(local, logical, length) for the runs of neighbours that make up [begin, end).
  template <class Body>
  void for_each_run(std::int64_t begin, std::int64_t end, const Body& body) const {
    for (std::int64_t local = begin; local < end;) {
      const std::int64_t rest = run() - local % run();
      const std::int64_t length = rest < end - local ? rest : end - local;
      body(local, (*this)(local), length);
      local += length;
    }
  }
};

}  // namespace capstan::kernels
