#include "shard/fill.h"

#include <ATen/core/grad_mode.h>

#include <algorithm>
#include <atomic>

#include "ops/parallel.h"

namespace capstan::shard {
namespace {

constexpr std::int64_t part_elements = std::int64_t{1} << 22;

// Rows of the box; a row is never divided.
void add_parts(const FillTask& task, std::vector<FillTask>& parts) {
  const auto numel = task.box.numel();
  if (task.box.size.empty() || numel <= part_elements) {
    parts.push_back(task);
    return;
  }
  const auto rows = task.box.size[0];
  const auto row = numel / rows;
  const auto step = std::max<std::int64_t>(1, part_elements / row);
  for (std::int64_t begin = 0; begin < rows; begin += step) {
    auto part = task;
    part.box.offset[0] += begin;
    part.box.size[0] = std::min(step, rows - begin);
    part.out = task.out.narrow(0, begin * row, part.box.size[0] * row);
    parts.push_back(std::move(part));
  }
}

}  // namespace

void fill_all(layout::Source& source, const std::vector<FillTask>& tasks) {
  if (!source.concurrent()) {
    for (const auto& task : tasks) source.fill(*task.record, task.box, task.out);
    return;
  }
  std::vector<FillTask> parts;
  for (const auto& task : tasks) add_parts(task, parts);
  std::atomic<std::size_t> next{0};
  const auto work = [&](std::int64_t, std::int64_t) {
    const at::NoGradGuard no_grad;
    for (auto i = next++; i < parts.size(); i = next++) source.fill(*parts[i].record, parts[i].box, parts[i].out);
  };
  ops::parallel_ranges(static_cast<std::int64_t>(parts.size()), 1, work);
}

}  // namespace capstan::shard
