#pragma once
#include <capstan/base/export.h>
#include <capstan/strategy/unit_hooks.h>

#include <functional>
#include <memory>
#include <vector>

#include "shard/plan.h"
#include "shard/schedule.h"

CAPSTAN_BEGIN_NAMESPACE
namespace shard {

/// What an engine of this plan would do with a GPU's memory while units compute, for a rehearsal on the meta device: it
/// binds every weight to a leaf of the compute dtype on that device, gathers by adding bytes, and takes gradients away
/// when the Reducer would. What an engine allocates for good is footprint()'s.
class Rehearsal {
 public:
  /// Whole copies that come and go; negative: they go.
  using Add = std::function<void(std::int64_t bytes)>;

  /// Binds the weights. `plan` must outlive it. `add` is called while units run.
  Rehearsal(const Plan& plan, EngineOptions options, Add add);

  std::unique_ptr<strategy::UnitHooks> hooks(std::size_t unit);
  /// Whole copies that are there, bytes.
  std::int64_t gathered() const { return gathered_; }

 private:
  class Hooks;
  struct Bucket {
    bool there = false;
    int users = 0;
    std::int64_t kept = 0;  ///< bytes of pieces that stay from forward to backward
  };

  void count(std::int64_t bytes);
  std::int64_t whole_bytes(std::size_t bucket) const;
  void start(std::size_t bucket, bool keep);
  void acquire(std::size_t run, bool with_grad);
  void prefetch(std::optional<std::size_t> run, bool with_grad);
  void release(std::size_t run);
  void collect(std::size_t bucket);

  const Plan& plan_;
  EngineOptions options_;
  Add add_;
  Schedule schedule_;
  std::int64_t gathered_ = 0;
  std::vector<Bucket> buckets_;
  std::vector<bool> stays_;       ///< by run
  std::vector<at::Tensor> held_;  ///< gradients that a reduction reads
};

}  // namespace shard
CAPSTAN_END_NAMESPACE
