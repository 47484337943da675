#include "assembly/precision.h"

namespace capstan::assembly {

shard::Precision precision_of(const std::string& name, c10::Device device) {
  shard::Precision precision;
  precision.device = device;
  if (name == "bf16") precision.compute = at::kBFloat16;
  if (name == "fp16") precision.compute = at::kHalf;
  if (name == "bf16_pure") precision.compute = precision.master = precision.reduce = at::kBFloat16;
  if (name == "fp64") precision.compute = precision.master = precision.reduce = at::kDouble;
  return precision;
}

}  // namespace capstan::assembly
