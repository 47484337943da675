#pragma once
#include <capstan/base/export.h>

#include <cstdint>
#include <functional>

#include "shard/plan.h"

CAPSTAN_BEGIN_NAMESPACE
namespace shard {

/// A record's part of a slice that a rank holds: elements [begin, begin + box.numel()).
struct Part {
  std::size_t bucket;
  std::size_t weight;
  const layout::Param& record;
  layout::Layout layout;
  layout::Box box;
  std::int64_t begin;
  bool counts;  ///< of the ranks that hold this copy, this one is to write it
  int copy;     ///< position on the record's local axes, along which ranks keep values of their own
};

enum class Of { parameters, gradients };

/// Calls visit for every record that options.rank holds something of: of the parameters (the optimizer's state lies as
/// they do) or of the summed gradients.
void each_part(const Plan& plan, const EngineOptions& options, Of what, bool only_trainable,
               const std::function<void(const Part&)>& visit);

/// Bytes that this rank gives to a checkpoint: the parameters that it counts, and `states` tensors of the optimizer's
/// for each trainable one.
std::int64_t saved_bytes(const Plan& plan, const EngineOptions& options, std::size_t states, bool only_trainable);

}  // namespace shard
CAPSTAN_END_NAMESPACE
