#pragma once
// What tests that need GPUs ask first.

namespace end_to_end {

/// All that the driver shows, or those of CUDA_VISIBLE_DEVICES.
int visible_gpus();
/// Are there fewer? Then it says so, and the test is to return.
bool too_few_gpus(int wanted);

}  // namespace end_to_end
