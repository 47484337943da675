#include "link_measures.h"

#include <capstan/base/clock.h>
#include <capstan/base/text.h>

#include <ATen/ATen.h>
#include <c10/core/impl/VirtualGuardImpl.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <functional>
#include <numeric>

namespace preflight {
namespace {

using namespace capstan;

using Clock = std::chrono::steady_clock;

constexpr int most_rounds = 63;
constexpr int pair_repeats = 3;
constexpr std::int64_t part_bytes = 256LL << 20U;  // bytes to move between two checks whether to continue

std::vector<int> all_ranks(int size) {
  std::vector<int> ranks(static_cast<std::size_t>(size));
  std::iota(ranks.begin(), ranks.end(), 0);
  return ranks;
}

bool all_are(const at::Tensor& tensor, double value) {
  return tensor.min().item<double>() == value && tensor.max().item<double>() == value;
}

/// The tensors of a collective and its call.
struct Buffers {
  at::Tensor whole;  ///< has the size by which the collective is reported
  at::Tensor part;   ///< a rank's part of it
};

Buffers allocate(std::int64_t bytes, int size, c10::Device device, bool with_part) {
  const auto options = at::TensorOptions().dtype(at::kFloat).device(device);
  const std::int64_t part = (bytes / 4 + size - 1) / size;
  return {at::zeros({part * size}, options), with_part ? at::zeros({part}, options) : at::Tensor()};
}

void call(comm::Group& group, const std::string& operation, const Buffers& buffers) {
  const std::string label = cat("preflight ", bytes_text(static_cast<double>(buffers.whole.nbytes())));
  if (operation == "all-reduce") group.all_reduce(buffers.whole, comm::ReduceOp::sum, label);
  if (operation == "reduce-scatter") group.reduce_scatter(buffers.part, buffers.whole, label);
  if (operation == "all-gather") group.all_gather(buffers.whole, buffers.part, label);
}

/// Rank r brings r + 1, small integers, so that every sum is exact.
bool values_are_right(comm::Group& group, const std::string& operation, const Buffers& buffers) {
  const double sum = group.size() * (group.size() + 1) / 2.0;
  const double mine = group.rank() + 1;
  buffers.whole.fill_(mine);
  if (buffers.part.defined()) buffers.part.fill_(mine);
  call(group, operation, buffers);
  if (operation == "all-reduce") return all_are(buffers.whole, sum);
  if (operation == "reduce-scatter") return all_are(buffers.part, sum);
  const auto rows = buffers.whole.view({group.size(), -1});
  for (int rank = 0; rank < group.size(); ++rank) {
    if (!all_are(rows[rank], rank + 1)) return false;
  }
  return true;
}

}  // namespace

LinkMeasures::LinkMeasures(comm::Communicator& communicator, c10::Device device, Between between)
    : communicator_(communicator),
      device_(device),
      between_(std::move(between)),
      world_(communicator.group("preflight", all_ranks(communicator.world().size), device)) {}

void LinkMeasures::synchronize() const {
  if (!device_.is_cpu()) c10::impl::VirtualGuardImpl(device_.type()).synchronizeDevice(device_.index());
}

double LinkMeasures::in_parts(std::int64_t iterations, std::int64_t bytes, comm::Group* group,
                              const std::function<void(std::int64_t)>& repeat) {
  const std::int64_t at_once = std::max<std::int64_t>(1, part_bytes / std::max<std::int64_t>(1, bytes));
  double seconds = 0;
  for (std::int64_t done = 0; done < iterations; done += at_once) {
    if (group != nullptr) {
      group->barrier("preflight: measure");
      const auto start = Clock::now();
      repeat(std::min(at_once, iterations - done));
      synchronize();
      seconds += seconds_since(start);
    }
    between_();
  }
  return seconds;
}

Bandwidth LinkMeasures::measure(comm::Group* group, const std::string& operation, std::int64_t bytes,
                                std::int64_t warmup, std::int64_t iterations) {
  Buffers buffers;
  if (group != nullptr) buffers = allocate(bytes, group->size(), device_, operation != "all-reduce");
  const auto repeat = [&](std::int64_t times) {
    for (std::int64_t i = 0; i < times; ++i) call(*group, operation, buffers);
  };
  (void)in_parts(warmup, bytes, group, repeat);
  const double seconds = in_parts(iterations, bytes, group, repeat);
  if (group == nullptr) return {operation, 0, 0, 0, 0, {}};
  const at::Tensor slowest =
      at::full({1}, seconds / static_cast<double>(iterations), at::TensorOptions().dtype(at::kDouble).device(device_));
  const bool right = values_are_right(*group, operation, buffers);
  group->all_reduce(slowest, comm::ReduceOp::max, "preflight: time");
  Bandwidth measured{
      operation, static_cast<std::int64_t>(buffers.whole.nbytes()), group->size(), slowest.item<double>(), 0, {}};
  measured.bus_gbps = bus_bandwidth(operation, measured.bytes, group->size(), measured.seconds);
  if (!right) measured.wrong.push_back(communicator_.world().rank);
  return measured;
}

Bandwidth LinkMeasures::shared(const Bandwidth& mine) {
  Bandwidth all = mine;
  all.wrong.clear();
  const auto texts = communicator_.exchange(cat(mine.seconds > 0 ? number_text(mine.seconds) : "", "\t", mine.bytes,
                                                "\t", mine.ranks, "\t", mine.wrong.empty() ? "" : "wrong", "\t."));
  for (std::size_t rank = 0; rank < texts.size(); ++rank) {
    const auto cells = split(texts[rank], '\t');
    if (cells[3] == "wrong") all.wrong.push_back(static_cast<int>(rank));
    if (cells[0].empty() || all.seconds > 0) continue;  // this rank was not in the group: a member's result
    all.seconds = std::atof(cells[0].c_str());
    all.bytes = std::atoll(cells[1].c_str());
    all.ranks = std::atoi(cells[2].c_str());
  }
  all.bus_gbps = bus_bandwidth(all.operation, all.bytes, all.ranks, all.seconds);
  return all;
}

Bandwidth LinkMeasures::collective(const std::string& operation, std::int64_t bytes, std::int64_t warmup,
                                   std::int64_t iterations) {
  return shared(measure(world_.get(), operation, bytes, warmup, iterations));
}

Gate LinkMeasures::gate(std::int64_t bytes, std::int64_t warmup, std::int64_t iterations) {
  Gate gate;
  const auto& world = communicator_.world();
  std::string problem;
  try {
    (void)allocate(bytes, 1, device_, false);
  } catch (const std::exception& error) {
    problem = cat("rank ", world.rank, " on ", world.host, " cannot allocate ", bytes_text(static_cast<double>(bytes)));
  }
  std::vector<int> firsts;
  const auto texts = communicator_.exchange(cat(world.local_rank, "\t", problem, "\t."));
  for (std::size_t rank = 0; rank < texts.size(); ++rank) {
    const auto cells = split(texts[rank], '\t');
    if (cells[0] == "0") firsts.push_back(static_cast<int>(rank));
    if (gate.problem.empty()) gate.problem = cells[1];
  }
  if (!gate.problem.empty() || world.size == 1) return gate;
  if (firsts.size() > 1 && firsts.size() < texts.size()) {
    std::shared_ptr<comm::Group> group;
    if (world.local_rank == 0) group = communicator_.group("preflight one a node", firsts, device_);
    gate.one_a_node = shared(measure(group.get(), "all-reduce", bytes, warmup, iterations));
  }
  gate.all = collective("all-reduce", bytes, warmup, iterations);
  return gate;
}

std::vector<PairBandwidth> LinkMeasures::pairs(std::int64_t bytes) {
  const int size = world_->size();
  const int rank = world_->rank();
  const std::int64_t count = std::max<std::int64_t>(1, bytes / 4);
  const auto options = at::TensorOptions().dtype(at::kFloat).device(device_);
  const at::Tensor in = at::zeros({count}, options);
  const at::Tensor out = at::empty({count}, options);
  std::string own;
  const int rounds = std::min(size % 2 == 0 ? size - 1 : size, most_rounds);
  for (int round = 0; round < rounds; ++round) {
    const int peer = partner(rank, size, round);
    std::vector<std::int64_t> counts(static_cast<std::size_t>(size), 0);
    counts[static_cast<std::size_t>(peer)] = count;
    world_->all_to_all(out, in, counts, counts, "preflight: pairs");  // connects the two
    synchronize();
    world_->barrier("preflight: pairs");
    const auto start = Clock::now();
    for (int i = 0; i < pair_repeats; ++i) world_->all_to_all(out, in, counts, counts, "preflight: pairs");
    synchronize();
    const double each = seconds_since(start) / pair_repeats;
    if (rank < peer) own += cat(peer, " ", number_text(static_cast<double>(in.nbytes()) / each / 1e9), "\n");
    between_();
  }
  std::vector<PairBandwidth> all;
  const auto texts = communicator_.exchange(own);
  for (std::size_t a = 0; a < texts.size(); ++a) {
    for (const auto& line : split(texts[a], '\n')) {
      const auto cells = split(line, ' ');
      if (cells.size() == 2)
        all.push_back({static_cast<int>(a), std::atoi(cells[0].c_str()), std::atof(cells[1].c_str())});
    }
  }
  return all;
}

int partner(int rank, int size, int round) {
  const int even = size + size % 2;  // an odd number gets a dummy
  const int circle = even - 1;
  if (circle == 0) return rank;
  int other = 0;
  if (rank == circle) {
    other = round % circle;
  } else {
    other = ((2 * round - rank) % circle + circle) % circle;
    if (other == rank) other = circle;
  }
  return other >= size ? rank : other;
}

}  // namespace preflight
