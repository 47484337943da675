#pragma once
#include <capstan/strategy.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "columns.h"

namespace context_parallel {

struct ContextParallelOptions {
  std::int64_t size = 1;
  std::string method = "auto";
  static std::vector<capstan::plugin::Saving> savings();
  static void describe(capstan::config::OptionTable<ContextParallelOptions>& t);
};

/// An attention layer's heads that tensor parallelism leaves a rank.
struct RankHeads {
  std::int64_t queries = 0;
  std::int64_t keys = 0;
};

/// Shares the tokens of each sample among the ranks of the axis cp: each has some columns of every row and computes all
/// layers on them. Only attention looks at other columns. With "ulysses" each rank then has all columns of some heads
/// (Jacobs et al. 2023, "DeepSpeed Ulysses"); with "gather" it has its own queries and all keys and values (Grattafiori
/// et al. 2024, "Llama 3", section 3.3.2); with "ring" these come one rank's after the other's (Liu et al. 2023).
class ContextParallel : public capstan::strategy::Strategy {
 public:
  explicit ContextParallel(capstan::config::Options<ContextParallelOptions> options) : options_(std::move(options)) {}
  void mesh(capstan::layout::MeshSpec& spec) override;
  void claim(capstan::strategy::Claims& claims) const override;
  void check(const capstan::strategy::Facts& facts, capstan::Diagnostics& diagnostics) const override;
  void structure(std::vector<std::unique_ptr<capstan::nn::Unit>>& units) override;
  std::vector<std::string> notes() const override { return notes_; }
  void place(capstan::nn::Unit& unit, const capstan::strategy::Placement& placement) override;
  capstan::nn::SequenceCut cut_sequence(const capstan::strategy::Placement& placement) override;

 private:
  /// None: the one that is asked for cannot be.
  std::optional<Method> method_for(const RankHeads& heads) const;
  capstan::Diagnostic indivisible(const RankHeads& heads, int tp) const;
  void refuse_short_rows(std::int64_t columns, capstan::Diagnostics& diagnostics) const;
  void note(Method method);
  void refuse_recurrence(const capstan::nn::Layer& layer) const;
  /// Throws Error for what the ring's row does not take of the layer.
  void add_ring(capstan::nn::AttentionCore& attention, capstan::nn::AttentionRow row) const;

  capstan::config::Options<ContextParallelOptions> options_;
  std::vector<std::string> notes_;
  bool has_attention_ = false;  // of the units that were placed
};

}  // namespace context_parallel
