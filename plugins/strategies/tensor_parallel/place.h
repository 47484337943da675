#pragma once
#include <capstan/nn/recurrence.h>
#include <capstan/strategy.h>

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

namespace tensor_parallel {

/// What is wrong with this number of ranks for these heads, and how to repair it.
struct SplitFault {
  std::string what;
  std::string fix;
};
/// Query heads are divided evenly. Key heads too; where they are fewer than ranks, each is held by as many neighbours.
std::optional<SplitFault> heads_fault(std::int64_t queries, std::int64_t keys, std::int64_t ranks);

/// Do all ranks get something of `n` rows that are cut by layout::Cut's rule?
bool gives_all_some(std::int64_t n, std::int64_t ranks);

/// What is split besides matrices.
struct Extent {
  bool sequence = false;
  bool vocabulary = true;
  std::shared_ptr<std::set<std::string>> split;  ///< records in all units that were split so far
};

/// Splits one unit over the ranks of tp: sets its records' compute layouts, marks gradients that are parts, and fills
/// its layers' ports. Each rank then computes with what its layers hold; the unit does not know.
class UnitPlacement {
 public:
  UnitPlacement(capstan::nn::Unit& unit, const capstan::strategy::Placement& placement, Extent extent);
  /// Throws Error for sizes that don't divide and for weights that layers without a declared split use.
  void run();

 private:
  using Transform = std::function<at::Tensor(const at::Tensor&)>;

  void check_heads_of(const capstan::nn::AttentionCore& attention) const;
  void split_heads_of(capstan::nn::Attention& attention);
  void split_recurrence(const capstan::nn::Recurrence& recurrence, const capstan::nn::Layer& layer);
  void split_norm(capstan::nn::RmsNorm& norm);
  void split_columns(capstan::nn::Linear& linear);
  void split_rows(capstan::nn::Linear& linear);
  void split_embedding(capstan::nn::Embedding& embedding);
  void split_head(capstan::nn::VocabularyHead& head);
  void show_all_positions(capstan::nn::CommPort& before, const std::string& layer) const;
  void split_experts(capstan::nn::Experts& experts);
  void split_attention();
  void split_positions();
  void mark_partial();
  void check_uses() const;

  /// Before layers whose results are cut, and after layers whose results are parts.
  Transform enter(const std::string& layer) const;
  Transform leave(const std::string& layer) const;
  /// Cuts a record; `copies` neighbours hold the same.
  void cut(capstan::layout::Param& record, std::int64_t dim, std::int64_t copies);
  void cut(capstan::nn::Weight& weight, std::int64_t dim);
  std::string label(const char* what, const std::string& layer) const;
  Transform own_part(std::int64_t dim) const;

  capstan::nn::Unit& unit_;
  Extent extent_;
  std::shared_ptr<capstan::comm::Group> group_;
  std::map<const capstan::nn::Layer*, std::int64_t> key_copies_;  ///< in fused q, k, v and in a norm of k
  std::set<std::string> declared_;                                ///< records of layers that were split
};

}  // namespace tensor_parallel
