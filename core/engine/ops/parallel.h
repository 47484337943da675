#pragma once
#include <cstdint>
#include <functional>

namespace capstan::ops {

/// Calls body(begin, end) for parts of [0, count) of at least `grain`, on ATen's intra-op threads
/// (at::set_num_threads). Its own file because at::parallel_for is a plain loop in files without OpenMP.
void parallel_ranges(std::int64_t count, std::int64_t grain,
                     const std::function<void(std::int64_t, std::int64_t)>& body);

}  // namespace capstan::ops
