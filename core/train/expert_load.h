#pragma once
#include <ATen/core/Tensor.h>
#include <capstan/base/export.h>
#include <capstan/monitor/monitor.h>

#include <cstdint>

CAPSTAN_BEGIN_NAMESPACE
namespace train {

/// What a step's experts computed as named numbers. `tokens` [layers · experts] float64 on the CPU, empty for a model
/// without experts. "expert_tokens_3": tokens of expert 3, summed over layers. "expert_load_max": the busiest expert of
/// any layer against that layer's mean; 1 when the load is even.
void add_expert_load(monitor::Values& values, const at::Tensor& tokens, std::int64_t layers);

}  // namespace train
CAPSTAN_END_NAMESPACE
