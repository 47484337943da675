#pragma once
#include <capstan/comm/group.h>
#include <capstan/nn/experts.h>
#include <capstan/ops/grouped.h>
#include <capstan/strategy_parts/collectives.h>

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

namespace expert_parallel {

/// Which rows of one layer go where.
struct Traffic {
  std::vector<std::int64_t> sent;      ///< rows to each rank
  std::vector<std::int64_t> received;  ///< rows from each rank
  at::Tensor arrived;                  ///< [ranks, experts here] int64 on the device: rows that each rank sends to each
  at::Tensor counts;                   ///< [experts here] int64 in host memory: rows of each; on the meta device there
  at::Tensor ids;                      ///< [R] int64, as rows come; undefined where none were sent
};

/// Where received rows, which come sorted by rank, stand when they are sorted by expert.
struct Places {
  capstan::ops::GroupedRows rows;
  at::Tensor ids;  ///< [R] int64, sorted by expert
};

/// Dispatch and combine of one layer's experts, an equal number of which is on each rank of the group. In forward
/// three calls of the group (counts, rows, results) and one more where rows have ids, in backward two (gradients of
/// results and of rows), in a second run for recompute two (rows, results), however few rows this rank has. The host
/// waits for the device once a forward, for the counts; a second run and backward go by them.
/// Where the group's calls are recorded, which is for tokens that are generated, no host can wait: all ranks have as
/// many rows then, and each sends each other as many as it has itself, most of which are filling.
class Exchange {
 public:
  /// Buffers of received rows that are there at once, at most: rows as they come, sorted, results, results on their
  /// way.
  static constexpr std::int64_t buffers = 4;

  /// `memory_factor`: on the meta device, where counts have no values, this many times the even number of rows arrives.
  Exchange(std::shared_ptr<capstan::comm::Group> group, const std::string& unit, double memory_factor = 1);
  /// What nn::Experts::exchange asks for.
  at::Tensor operator()(const capstan::nn::Experts::Body& body, const capstan::nn::Experts::Rows& rows,
                        const at::Tensor& counts, const at::Tensor& ids, capstan::nn::RecomputeContext* kept) const;

 private:
  /// `mine` becomes the rows.
  Traffic agree(const capstan::nn::Experts::Rows& rows, const at::Tensor& counts, const at::Tensor& ids,
                at::Tensor& mine) const;
  at::Tensor with_room(const capstan::nn::Experts::Body& body, const at::Tensor& mine, const at::Tensor& counts) const;
  at::Tensor exchanged(const at::Tensor& counts) const;
  std::shared_ptr<capstan::comm::Group> group_;
  std::string counts_label_;
  std::string ids_label_;
  double memory_factor_;
  capstan::ops::AllToAllRows dispatch_;
  capstan::ops::AllToAllRows combine_;
};

}  // namespace expert_parallel
