#include "ops/parallel.h"

#include <ATen/Parallel.h>

namespace capstan::ops {

#ifndef _OPENMP
#error "compile this file with OpenMP: without it at::parallel_for uses one thread"
#endif

void parallel_ranges(std::int64_t count, std::int64_t grain,
                     const std::function<void(std::int64_t, std::int64_t)>& body) {
  at::parallel_for(0, count, grain, body);
}

}  // namespace capstan::ops
