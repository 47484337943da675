#include "strategy/matrix_plan.h"

#include <capstan/base/error.h>

#include <algorithm>
#include <tuple>
#include <utility>

namespace capstan::strategy {
namespace {

std::int64_t rows_of(const layout::Param& record) { return record.shape[record.shape.size() - 2]; }
std::int64_t matrix_elements(const layout::Param& record) { return rows_of(record) * record.shape.back(); }

struct SharedMatrix {
  const SharedRecord* of;
  std::size_t plan;    ///< its rule's and dtype's
  std::int64_t index;  ///< among the record's
  int owner = 0;
};

// A rank's part of one matrix: the position of its first element in the rank's box of the record.
struct Holder {
  int rank;
  Rect rect;
  std::int64_t begin;
};

// The part of the record's matrix `index` that lies in a box; no rows where none does.
Holder holder_of(const layout::Param& record, const layout::Box& box, std::int64_t index, int rank) {
  const auto dims = record.shape.size();
  const Rect rect{box.offset[dims - 2], box.size[dims - 2], box.offset[dims - 1], box.size[dims - 1]};
  std::int64_t place = 0;  // among the matrices of the box
  std::int64_t stride = 1;
  for (std::size_t d = dims - 2; d-- > 0; index /= record.shape[d]) {
    const auto at = index % record.shape[d] - box.offset[d];
    if (at < 0 || at >= box.size[d]) return {rank, {}, 0};
    place += at * stride;
    stride *= box.size[d];
  }
  return {rank, rect, place * rect.numel()};
}

std::vector<Holder> holders_of(const SharedMatrix& matrix) {
  std::vector<Holder> holders;
  for (std::size_t r = 0; r < matrix.of->boxes.size(); ++r) {
    const auto one = holder_of(*matrix.of->record, matrix.of->boxes[r], matrix.index, static_cast<int>(r));
    if (one.rect.numel() > 0) holders.push_back(one);
  }
  return holders;
}

layout::Box box_of(const layout::Param& record, std::int64_t index, const Rect& rect) {
  const auto dims = record.shape.size();
  layout::Box box{layout::Shape(dims), layout::Shape(dims, 1)};
  box.offset[dims - 2] = rect.row;
  box.size[dims - 2] = rect.rows;
  box.offset[dims - 1] = rect.col;
  box.size[dims - 1] = rect.cols;
  for (std::size_t d = dims - 2; d-- > 0; index /= record.shape[d]) box.offset[d] = index % record.shape[d];
  return box;
}

std::size_t plan_of(std::vector<MatrixPlan>& plans, const SharedRecord& record) {
  const auto found = std::find_if(plans.begin(), plans.end(), [&](const MatrixPlan& one) {
    return one.rule == record.rule && one.dtype == record.spec.dtype;
  });
  if (found != plans.end()) return static_cast<std::size_t>(found - plans.begin());
  plans.push_back({record.rule, record.spec.dtype, {}});
  return plans.size() - 1;
}

// Those with the most work first, so that the last ones even out the sums; equal shapes are neighbours.
std::vector<SharedMatrix> in_order(const std::vector<SharedRecord>& records, std::vector<MatrixPlan>& plans) {
  std::vector<SharedMatrix> matrices;
  for (const auto& record : records) {
    const auto count = record.record->numel() / matrix_elements(*record.record);
    const auto plan = plan_of(plans, record);
    for (std::int64_t i = 0; i < count; ++i) matrices.push_back({&record, plan, i});
  }
  std::stable_sort(matrices.begin(), matrices.end(), [](const SharedMatrix& a, const SharedMatrix& b) {
    const auto key = [](const SharedMatrix& m) {
      return std::tuple(m.plan, -m.of->spec.work, rows_of(*m.of->record), m.of->record->shape.back());
    };
    return key(a) < key(b);
  });
  return matrices;
}

// Gives each matrix to the rank with the least work of those that have a part of it.
void choose_owners(std::vector<SharedMatrix>& matrices, std::size_t ranks) {
  std::vector<double> work(ranks, 0.0);
  for (auto& matrix : matrices) {
    const auto holders = holders_of(matrix);
    const auto least = std::min_element(holders.begin(), holders.end(), [&](const Holder& a, const Holder& b) {
      return work[static_cast<std::size_t>(a.rank)] < work[static_cast<std::size_t>(b.rank)];
    });
    CAPSTAN_ASSERT(least != holders.end());
    matrix.owner = least->rank;
    work[static_cast<std::size_t>(least->rank)] += matrix.of->spec.work;
  }
}

// Deals matrices to rounds.
class Dealer {
 public:
  Dealer(std::vector<MatrixPlan> plans, std::size_t ranks, int position, std::int64_t most)
      : plans_(std::move(plans)), position_(position), most_(most), owned_(ranks, 0), held_(ranks, 0) {}

  void deal(const SharedMatrix& matrix) {
    auto& rounds = plans_[matrix.plan].rounds;
    const auto holders = holders_of(matrix);
    if (rounds.empty() || is_full(matrix, holders)) {
      rounds.emplace_back();
      std::fill(owned_.begin(), owned_.end(), 0);
      std::fill(held_.begin(), held_.end(), 0);
    }
    auto& round = rounds.back();
    auto& owned = owned_[static_cast<std::size_t>(matrix.owner)];
    for (const auto& holder : holders) add_part(round, matrix, holder, holders, owned);
    if (matrix.owner == position_) add_matrix(round, matrix, owned);
    owned += matrix_elements(*matrix.of->record);
  }

  std::vector<MatrixPlan> take() {
    for (auto& plan : plans_) {
      for (auto& round : plan.rounds) {
        std::stable_sort(round.own.begin(), round.own.end(),
                         [](const OwnPart& a, const OwnPart& b) { return a.owner < b.owner; });
        std::stable_sort(round.others.begin(), round.others.end(),
                         [](const WholePart& a, const WholePart& b) { return a.rank < b.rank; });
      }
    }
    return std::move(plans_);
  }

 private:
  // Where nothing is sharded each rank gets all matrices of a round back, so what parts take is limited too, and then
  // not all ranks own a matrix in each round.
  bool is_full(const SharedMatrix& matrix, const std::vector<Holder>& holders) const {
    constexpr std::int64_t parts_of_limit = 16;
    const auto owned = owned_[static_cast<std::size_t>(matrix.owner)];
    if (owned > 0 && owned + matrix_elements(*matrix.of->record) > most_) return true;
    return std::any_of(holders.begin(), holders.end(), [&](const Holder& holder) {
      const auto held = held_[static_cast<std::size_t>(holder.rank)];
      return held > 0 && held + holder.rect.numel() > parts_of_limit * most_;
    });
  }

  // The owner gives its own elements; of other ranks with the same ones the first does.
  static bool gives(const Holder& holder, const std::vector<Holder>& holders, int owner) {
    const auto* giver = &holder;
    for (const auto& other : holders) {
      if (!(other.rect == holder.rect)) continue;
      if (other.rank == owner) return holder.rank == owner;
      if (other.rank < giver->rank) giver = &other;
    }
    return giver == &holder;
  }

  void add_part(MatrixRound& round, const SharedMatrix& matrix, const Holder& holder,
                const std::vector<Holder>& holders, std::int64_t begin) {
    held_[static_cast<std::size_t>(holder.rank)] += holder.rect.numel();
    round.exchanges = round.exchanges || holder.rank != matrix.owner;
    const auto& record = *matrix.of->record;
    if (holder.rank != position_ && matrix.owner != position_) return;
    const WholePart part{holder.rank, &record, begin, holder.rect, gives(holder, holders, matrix.owner)};
    if (holder.rank != position_) {
      round.others.push_back(part);
      return;
    }
    round.own.push_back({matrix.of->slice, holder.begin, box_of(record, matrix.index, holder.rect), matrix.owner, part,
                         matrix.of->on_host});
  }

  static void add_matrix(MatrixRound& round, const SharedMatrix& matrix, std::int64_t begin) {
    const auto& record = *matrix.of->record;
    const auto is_alike = [&](const WholeBatch& batch) {
      const auto& other = *batch.records.front();
      return rows_of(other) == rows_of(record) && other.shape.back() == record.shape.back() &&
             batch.states == matrix.of->spec.states && batch.on_host == matrix.of->on_host;
    };
    if (round.batches.empty() || !is_alike(round.batches.back()))
      round.batches.push_back({{}, {}, matrix.of->spec.states, matrix.of->on_host, begin});
    auto& batch = round.batches.back();
    batch.records.push_back(&record);
    batch.indices.push_back(matrix.index);
    batch.elements += matrix_elements(record);
    batch.work_bytes += matrix.of->spec.bytes;
    batch.work += matrix.of->spec.work;
  }

  std::vector<MatrixPlan> plans_;
  int position_;
  std::int64_t most_;
  // Elements of the round so far, by rank: of its own matrices, and of its parts of all.
  std::vector<std::int64_t> owned_, held_;
};

}  // namespace

at::Tensor WholePart::of(const at::Tensor& matrices) const {
  const auto rows = rows_of(*record), cols = record->shape.back();
  const auto matrix = matrices.narrow(0, begin, rows * cols).view({rows, cols});
  return matrix.narrow(0, rect.row, rect.rows).narrow(1, rect.col, rect.cols);
}

std::int64_t MatrixRound::elements() const {
  return batches.empty() ? 0 : batches.back().begin + batches.back().elements;
}

std::vector<MatrixPlan> plan_matrices(const std::vector<SharedRecord>& records, int position, std::int64_t most) {
  if (records.empty()) return {};
  std::vector<MatrixPlan> plans;
  auto matrices = in_order(records, plans);
  const auto ranks = records.front().boxes.size();
  choose_owners(matrices, ranks);
  Dealer dealer(std::move(plans), ranks, position, most);
  for (const auto& matrix : matrices) dealer.deal(matrix);
  return dealer.take();
}

MatrixBytes bytes_of(const std::vector<MatrixPlan>& plans) {
  MatrixBytes most;
  for (const auto& plan : plans) {
    const auto size = static_cast<std::int64_t>(c10::elementSize(plan.dtype));
    for (const auto& round : plan.rounds) {
      std::int64_t work = 0, crossing = 0, on_host = 0;
      for (const auto& batch : round.batches) work = std::max(work, batch.work_bytes);
      // A part that is not contiguous in its owner's matrix crosses as those of other ranks do.
      for (const auto& part : round.own) {
        const bool in_place = part.owner == part.whole.rank && part.whole.rect.cols == part.whole.record->shape.back();
        if (!in_place) crossing += part.elements();
        if (part.on_host) on_host += part.elements();
      }
      for (const auto& part : round.others) crossing += part.rect.numel();
      most.device = std::max(most.device, round.elements() * size + std::max(work, crossing * size));
      most.host = std::max(most.host, on_host * size);
    }
  }
  return most;
}

MatrixWork work_of(const std::vector<MatrixPlan>& plans) {
  MatrixWork sum;
  for (const auto& plan : plans) {
    const auto size = static_cast<std::int64_t>(c10::elementSize(plan.dtype));
    for (const auto& round : plan.rounds) {
      for (const auto& batch : round.batches) sum.flops += batch.work;
      if (!round.exchanges) continue;
      ++sum.exchanges;
      for (const auto& part : round.own) sum.sent_parts += part.elements() * size;
    }
  }
  return sum;
}

MatrixBytes state_bytes_of(const std::vector<MatrixPlan>& plans) {
  MatrixBytes sum;
  for (const auto& plan : plans) {
    for (const auto& round : plan.rounds) {
      for (const auto& batch : round.batches) {
        for (const auto& state : batch.states) {
          (batch.on_host ? sum.host : sum.device) += static_cast<std::int64_t>(batch.records.size()) *
                                                     layout::numel(state.shape) *
                                                     static_cast<std::int64_t>(c10::elementSize(state.dtype));
        }
      }
    }
  }
  return sum;
}

}  // namespace capstan::strategy
