#include "plan.h"

#include <capstan/base/error.h>

#include <algorithm>
#include <numeric>
#include <tuple>
#include <utility>

namespace capstan::matrix_rules {
namespace {

std::int64_t rows_of(const layout::Param& record) { return record.shape[record.shape.size() - 2]; }
std::int64_t matrix_elements(const layout::Param& record) { return rows_of(record) * record.shape.back(); }

struct SharedMatrix {
  const WholeRecord* of;
  std::size_t kind;    ///< the first record's number that has its dtype
  std::int64_t index;  ///< among the record's
  int owner = 0;

  const layout::Param& record() const { return *of->shared.record; }
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
  for (std::size_t r = 0; r < matrix.of->shared.boxes.size(); ++r) {
    const auto one = holder_of(matrix.record(), matrix.of->shared.boxes[r], matrix.index, static_cast<int>(r));
    if (one.rect.numel() > 0) holders.push_back(one);
  }
  return holders;
}

// Those with the most work first, so that the last ones even out the sums; equal shapes are neighbours.
std::vector<SharedMatrix> in_order(const std::vector<WholeRecord>& records) {
  std::vector<SharedMatrix> matrices;
  for (const auto& record : records) {
    const auto& param = *record.shared.record;
    const auto count = param.numel() / matrix_elements(param);
    const auto alike = std::find_if(records.begin(), records.end(),
                                    [&](const WholeRecord& one) { return one.spec.dtype == record.spec.dtype; });
    const auto kind = static_cast<std::size_t>(alike - records.begin());
    for (std::int64_t i = 0; i < count; ++i) matrices.push_back({&record, kind, i});
  }
  std::stable_sort(matrices.begin(), matrices.end(), [](const SharedMatrix& a, const SharedMatrix& b) {
    const auto key = [](const SharedMatrix& m) {
      return std::tuple(m.kind, -m.of->spec.work, rows_of(m.record()), m.record().shape.back());
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
  Dealer(std::size_t ranks, int position, std::int64_t most)
      : position_(position), most_(most), owned_(ranks, 0), held_(ranks, 0) {}

  void deal(const SharedMatrix& matrix) {
    const auto holders = holders_of(matrix);
    if (rounds_.empty() || kind_ != matrix.kind || is_full(matrix, holders)) {
      const std::vector<std::int64_t> none(owned_.size(), 0);
      owned_ = held_ = none;
      kind_ = matrix.kind;
      rounds_.push_back({matrix.of->spec.dtype, {none, none}, {none, none}});
    }
    auto& round = rounds_.back();
    auto& owned = owned_[static_cast<std::size_t>(matrix.owner)];
    for (const auto& holder : holders) add_part(round, matrix, holder, holders, owned);
    if (matrix.owner == position_) add_matrix(round, matrix, owned);
    owned += matrix_elements(matrix.record());
  }

  std::vector<MatrixRound> take() {
    for (auto& round : rounds_) {
      std::stable_sort(round.own.begin(), round.own.end(),
                       [](const OwnPart& a, const OwnPart& b) { return a.owner < b.owner; });
      std::stable_sort(round.others.begin(), round.others.end(),
                       [](const WholePart& a, const WholePart& b) { return a.rank < b.rank; });
    }
    return std::move(rounds_);
  }

 private:
  // Where nothing is sharded each rank gets all matrices of a round back, so what parts take is limited too, and then
  // not all ranks own a matrix in each round.
  bool is_full(const SharedMatrix& matrix, const std::vector<Holder>& holders) const {
    constexpr std::int64_t parts_of_limit = 16;
    const auto owned = owned_[static_cast<std::size_t>(matrix.owner)];
    if (owned > 0 && owned + matrix_elements(matrix.record()) > most_) return true;
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
    const auto& record = matrix.record();
    if (holder.rank != position_ && matrix.owner != position_) return;
    const WholePart part{holder.rank, &record, begin, holder.rect, gives(holder, holders, matrix.owner)};
    if (holder.rank == position_) {
      const auto& rect = holder.rect;
      round.own.push_back({matrix.of->shared.slice, holder.begin,
                           box_of(record, matrix.index, {{rect.row, rect.col}, {rect.rows, rect.cols}}), matrix.owner,
                           part, matrix.of->shared.on_host});
    } else {
      round.others.push_back(part);
    }
    if (holder.rank == matrix.owner) return;
    const auto count = [&](PartCounts& counts) {
      auto& ranks = holder.rank == position_ ? counts.own : counts.others;
      ranks[static_cast<std::size_t>(holder.rank == position_ ? matrix.owner : holder.rank)] += holder.rect.numel();
    };
    count(round.back);
    if (part.gives) count(round.to_owners);
  }

  static void add_matrix(MatrixRound& round, const SharedMatrix& matrix, std::int64_t begin) {
    const auto& record = matrix.record();
    const auto is_alike = [&](const WholeBatch& batch) {
      const auto& other = *batch.records.front();
      return rows_of(other) == rows_of(record) && other.shape.back() == record.shape.back() &&
             batch.states == matrix.of->spec.states && batch.on_host == matrix.of->shared.on_host;
    };
    if (round.batches.empty() || !is_alike(round.batches.back()))
      round.batches.push_back({{}, {}, matrix.of->spec.states, matrix.of->shared.on_host, begin});
    auto& batch = round.batches.back();
    batch.records.push_back(&record);
    batch.indices.push_back(matrix.index);
    batch.elements += matrix_elements(record);
    batch.work_bytes += matrix.of->spec.bytes;
    batch.work += matrix.of->spec.work;
  }

  std::vector<MatrixRound> rounds_;
  std::size_t kind_ = 0;  // the last round's
  int position_;
  std::int64_t most_;
  // Elements of the round so far, by rank: of its own matrices, and of its parts of all.
  std::vector<std::int64_t> owned_, held_;
};

std::int64_t sum(const PartCounts& counts) {
  const auto own = std::accumulate(counts.own.begin(), counts.own.end(), std::int64_t{0});
  return std::accumulate(counts.others.begin(), counts.others.end(), own);
}

}  // namespace

layout::Box box_of(const layout::Param& record, std::int64_t index, const layout::Box& inner) {
  const auto dims = record.shape.size() - 2;
  layout::Box box{layout::Shape(dims), layout::Shape(dims, 1)};
  for (std::size_t d = dims; d-- > 0; index /= record.shape[d]) box.offset[d] = index % record.shape[d];
  box.offset.insert(box.offset.end(), inner.offset.begin(), inner.offset.end());
  box.size.insert(box.size.end(), inner.size.begin(), inner.size.end());
  return box;
}

at::Tensor WholePart::of(const at::Tensor& matrices) const {
  const auto rows = rows_of(*record), cols = record->shape.back();
  const auto matrix = matrices.narrow(0, begin, rows * cols).view({rows, cols});
  return matrix.narrow(0, rect.row, rect.rows).narrow(1, rect.col, rect.cols);
}

std::int64_t MatrixRound::elements() const {
  return batches.empty() ? 0 : batches.back().begin + batches.back().elements;
}

std::vector<MatrixRound> plan_matrices(const std::vector<WholeRecord>& records, int position, std::int64_t most) {
  if (records.empty()) return {};
  auto matrices = in_order(records);
  const auto ranks = records.front().shared.boxes.size();
  choose_owners(matrices, ranks);
  // Where ranks exchange parts, two rounds are whole at once and two cross (each_phase). Rounds of half the size then
  // take about the memory that rounds would take one after the other; only matrices that are larger alone take more.
  Dealer dealer(ranks, position, ranks > 1 ? (most + 1) / 2 : most);
  for (const auto& matrix : matrices) dealer.deal(matrix);
  return dealer.take();
}

void each_phase(const std::vector<MatrixRound>& rounds,
                const std::function<void(MatrixPhase, const MatrixRound&)>& run) {
  const auto at = [&](MatrixPhase phase, std::size_t i) { run(phase, rounds[i]); };
  // A round that sends nothing would only take its memory earlier.
  const auto begins_ahead = [&](std::size_t i) { return i > 0 && i < rounds.size() && rounds[i].exchanges; };
  for (std::size_t i = 0; i < rounds.size(); ++i) {
    if (!begins_ahead(i)) at(MatrixPhase::begin, i);
    at(MatrixPhase::arrive, i);
    if (begins_ahead(i + 1)) at(MatrixPhase::begin, i + 1);
    at(MatrixPhase::compute, i);
    if (i > 0) at(MatrixPhase::end, i - 1);
    at(MatrixPhase::give_back, i);
  }
  if (!rounds.empty()) at(MatrixPhase::end, rounds.size() - 1);
}

MatrixBytes bytes_of(const std::vector<MatrixRound>& rounds) {
  MatrixBytes most;
  std::int64_t held = 0;
  each_phase(rounds, [&](MatrixPhase phase, const MatrixRound& round) {
    const auto size = static_cast<std::int64_t>(c10::elementSize(round.dtype));
    const bool begins = phase == MatrixPhase::begin, gives_back = phase == MatrixPhase::give_back;
    std::int64_t passing = 0, on_host = 0;  // besides what is held, freed at the phase's end
    for (const auto& part : round.own) {
      // A part that is not contiguous in its owner's matrix goes there by memory of its own.
      if ((begins || gives_back) && part.is_mine() && !part.is_in_place()) passing += part.elements() * size;
      const bool has_part = begins ? part.is_mine() || part.whole.gives : phase == MatrixPhase::end && !part.is_mine();
      if (part.on_host && has_part) on_host += part.elements() * size;
    }
    for (const auto& batch : round.batches) {
      if (phase == MatrixPhase::compute) passing = std::max(passing, batch.work_bytes);
    }
    if (begins) held += (round.elements() + sum(round.to_owners)) * size;
    if (gives_back) held += sum(round.back) * size;
    most.device = std::max(most.device, held + passing);
    most.host = std::max(most.host, on_host);
    if (phase == MatrixPhase::arrive) held -= sum(round.to_owners) * size;
    if (gives_back) held -= round.elements() * size;
    if (phase == MatrixPhase::end) held -= sum(round.back) * size;
  });
  return most;
}

MatrixWork work_of(const std::vector<MatrixRound>& rounds) {
  MatrixWork sum;
  for (const auto& round : rounds) {
    for (const auto& batch : round.batches) sum.flops += batch.work;
    if (!round.exchanges) continue;
    ++sum.exchanges;
    for (const auto& part : round.own)
      sum.sent_parts += part.elements() * static_cast<std::int64_t>(c10::elementSize(round.dtype));
  }
  return sum;
}

}  // namespace capstan::matrix_rules
