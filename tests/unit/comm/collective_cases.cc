#include "comm/collective_cases.h"

#include <cmath>
#include <numeric>
#include <stdexcept>

namespace comm_test {

using capstan::cat;
using capstan::comm::Communicator;
using capstan::comm::Group;
using capstan::comm::Pending;
using capstan::comm::ReduceOp;

namespace {

const std::vector<at::ScalarType>& dtypes() {
  static const std::vector<at::ScalarType> list{at::kDouble, at::kFloat, at::kBFloat16, at::kLong};
  return list;
}

/// The plain loop that the promise is about: element by element, rank by rank.
template <class T, class Sum>
at::Tensor sum_of(const std::vector<at::Tensor>& parts) {
  at::Tensor out = at::empty_like(parts[0]);
  for (std::int64_t i = 0; i < out.numel(); ++i) {
    Sum total = static_cast<Sum>(parts[0].data_ptr<T>()[i]);
    for (std::size_t r = 1; r < parts.size(); ++r) total += static_cast<Sum>(parts[r].data_ptr<T>()[i]);
    out.data_ptr<T>()[i] = static_cast<T>(total);
  }
  return out;
}

at::Tensor ordered_sum(const std::vector<at::Tensor>& parts) {
  switch (parts[0].scalar_type()) {
    case at::kDouble:
      return sum_of<double, double>(parts);
    case at::kFloat:
      return sum_of<float, float>(parts);
    case at::kBFloat16:
      return sum_of<c10::BFloat16, float>(parts);
    default:
      return sum_of<std::int64_t, std::int64_t>(parts);
  }
}

std::vector<at::Tensor> everyones_values(const Group& group, std::int64_t size, at::ScalarType dtype, bool ordered) {
  std::vector<at::Tensor> values;
  for (const int rank : group.ranks()) {
    values.push_back(ordered ? rough_values(rank, size, dtype)
                             : at::remainder(at::arange(size, at::kDouble) * (rank + 3), 16).to(dtype));
  }
  return values;
}

std::string name_of(const Group& group, at::ScalarType dtype, std::int64_t size) {
  return cat(" of ", size, " ", c10::toString(dtype), " in group ", group.name());
}

void check_reductions(Group& group, at::ScalarType dtype, std::int64_t size, bool ordered) {
  const auto me = static_cast<std::size_t>(group.rank());
  const std::string where = name_of(group, dtype, size);
  const auto values = everyones_values(group, size, dtype, ordered);
  const at::Tensor total = ordered_sum(values);

  at::Tensor t = values[me].clone();
  group.all_reduce(t, ReduceOp::sum, "sum");
  require(t.equal(total), "all-reduce sum" + where);

  t = values[me].clone();
  group.start_all_reduce(t, ReduceOp::sum, "started sum")->wait();
  require(t.equal(total), "started all-reduce" + where);

  t = values[me].clone();
  group.all_reduce(t, ReduceOp::max, "max");
  require(t.equal(std::get<0>(at::stack(values).max(0))), "all-reduce max" + where);

  t = values[me].clone();
  group.all_reduce(t, ReduceOp::min, "min");
  require(t.equal(std::get<0>(at::stack(values).min(0))), "all-reduce min" + where);

  const auto wide = everyones_values(group, size * group.size(), dtype, ordered);
  const at::Tensor out = at::empty({size}, dtype);
  group.reduce_scatter(out, wide[me], "reduce-scatter");
  require(out.equal(ordered_sum(wide).narrow(0, group.rank() * size, size)), "reduce-scatter" + where);

  const at::Tensor later = at::zeros({size}, dtype);
  group.start_reduce_scatter(later, wide[me], "started reduce-scatter")->wait();
  require(later.equal(out), "started reduce-scatter" + where);
}

void check_moves(Group& group, at::ScalarType dtype, std::int64_t size) {
  const auto me = static_cast<std::size_t>(group.rank());
  const std::string where = name_of(group, dtype, size);
  const auto values = everyones_values(group, size, dtype, true);

  const at::Tensor gathered = at::zeros({group.size(), size}, dtype);
  group.all_gather(gathered, values[me], "gather");
  require(gathered.equal(at::stack(values)), "all-gather" + where);

  group.start_all_gather(gathered.zero_(), values[me], "started gather")->wait();
  require(gathered.equal(at::stack(values)), "started all-gather" + where);

  const at::Tensor in_place = at::zeros({group.size(), size}, dtype);
  in_place[group.rank()].copy_(values[me]);
  group.all_gather(in_place, in_place[group.rank()], "gather in place");
  require(in_place.equal(at::stack(values)), "all-gather in place" + where);

  for (int root = 0; root < group.size(); ++root) {
    const at::Tensor t = values[me].clone();
    group.broadcast(t, root, "broadcast");
    require(t.equal(values[static_cast<std::size_t>(root)]), cat("broadcast from ", root, where));
  }
}

/// Rank i sends (i + 2·k) mod 3 rows to rank k; a row says who sent it, to whom, and which it is.
void check_all_to_all(Group& group, at::ScalarType dtype) {
  const auto count = [](int from, int to) { return std::int64_t{(from + 2 * to) % 3}; };
  const auto rows = [&](int from, int to) {
    at::Tensor block = at::empty({count(from, to), 2}, dtype);
    for (std::int64_t i = 0; i < block.size(0); ++i) {
      block[i][0] = 10 * from + to;
      block[i][1] = i;
    }
    return block;
  };
  std::vector<std::int64_t> in_counts;
  std::vector<std::int64_t> out_counts;
  std::vector<at::Tensor> sent;
  std::vector<at::Tensor> expected;
  for (int peer = 0; peer < group.size(); ++peer) {
    in_counts.push_back(count(group.rank(), peer));
    out_counts.push_back(count(peer, group.rank()));
    sent.push_back(rows(group.rank(), peer));
    expected.push_back(rows(peer, group.rank()));
  }
  const at::Tensor out = at::zeros_like(at::cat(expected));
  group.all_to_all(out, at::cat(sent), out_counts, in_counts, "tokens");
  require(out.equal(at::cat(expected)), "all-to-all" + name_of(group, dtype, out.size(0)));
}

/// Everyone sends `rows` rows to the last rank and nothing to others, as when only one rank's experts are chosen.
void check_one_sided(Group& group, std::int64_t rows) {
  std::vector<std::int64_t> in_counts(static_cast<std::size_t>(group.size()), 0);
  in_counts.back() = rows;
  const bool is_last = group.rank() + 1 == group.size();
  const std::vector<std::int64_t> out_counts(in_counts.size(), is_last ? rows : 0);
  const at::Tensor sent = at::full({rows, 3}, static_cast<double>(group.rank()), at::kDouble);
  const at::Tensor out = at::zeros({is_last ? rows * group.size() : 0, 3}, at::kDouble);
  group.all_to_all(out, sent, out_counts, in_counts, "all to one");
  if (!is_last) return;
  const at::Tensor ranks = at::arange(group.size(), at::kDouble).repeat_interleave(rows).unsqueeze(1);
  require(out.equal(ranks.expand({-1, 3})), cat("all-to-all of ", rows, " rows to one rank"));
}

/// A ring: each rank sends two messages to the next one before it receives those of the one before it; then two whose
/// receives were started before anything was sent, which are waited for in their order.
void check_transfers(Group& group, at::ScalarType dtype, std::int64_t size) {
  if (group.size() == 1) return;
  const auto value = [&](int from, int message) { return rough_values(10 * from + message, size + message, dtype); };
  const int next = (group.rank() + 1) % group.size();
  const int last = (group.rank() + group.size() - 1) % group.size();
  std::vector<std::unique_ptr<Pending>> sent;
  for (int message = 0; message < 2; ++message)
    sent.push_back(group.start_send(value(group.rank(), message), next, cat("message ", message)));
  for (int message = 0; message < 2; ++message) {
    const auto got = at::zeros({size + message}, dtype);
    group.receive(got, last, cat("message ", message));
    require(got.equal(value(last, message)), cat("message ", message, name_of(group, dtype, size)));
  }
  std::vector<at::Tensor> coming;
  std::vector<std::unique_ptr<Pending>> started;
  for (int message = 2; message < 4; ++message) {
    coming.push_back(at::zeros({size + message}, dtype));
    started.push_back(group.start_receive(coming.back(), last, cat("message ", message)));
  }
  for (int message = 2; message < 4; ++message)
    sent.push_back(group.start_send(value(group.rank(), message), next, cat("message ", message)));
  for (int message = 2; message < 4; ++message) {
    const auto i = static_cast<std::size_t>(message - 2);
    started[i]->wait();
    require(coming[i].equal(value(last, message)), cat("started message ", message, name_of(group, dtype, size)));
  }
  for (auto& one : sent) one->wait();
}

/// Several started calls, the last of them waited for first, and one that is not started between them.
void check_several_pending(Group& group) {
  std::vector<at::Tensor> sums;
  std::vector<std::unique_ptr<Pending>> pending;
  for (int i = 0; i < 3; ++i) {
    sums.push_back(at::full({i == 1 ? 5000 : 3}, static_cast<double>(group.rank() + i), at::kDouble));
    pending.push_back(group.start_all_reduce(sums.back(), ReduceOp::sum, cat("pending ", i)));
  }
  const auto expected = [&](int i) {
    double sum = 0;
    for (int rank = 0; rank < group.size(); ++rank) sum += rank + i;
    return at::full_like(sums[static_cast<std::size_t>(i)], sum);
  };
  pending[1]->wait();
  require(sums[1].equal(expected(1)), "the second of three pending calls");
  const auto now = at::full({2}, 1.0, at::kDouble);
  group.all_reduce(now, ReduceOp::sum, "not started");
  require(now.equal(at::full({2}, static_cast<double>(group.size()), at::kDouble)), "a call while others are pending");
  pending[2]->wait();
  pending[0]->wait();
  require(sums[0].equal(expected(0)) && sums[2].equal(expected(2)), "the first and the last of three pending calls");
}

void check_group(Group& group, bool ordered) {
  group.barrier("before");
  for (const at::ScalarType dtype : dtypes()) {
    // Fewer elements than ranks, no multiple of them, one message and two (an all-reduce in order, 16 KiB and more).
    for (const std::int64_t size : {2, 67, 9001}) check_reductions(group, dtype, size, ordered);
    check_moves(group, dtype, 129);
    check_all_to_all(group, dtype);
    for (const std::int64_t size : {3, 9001}) check_transfers(group, dtype, size);
  }
  check_several_pending(group);
  for (const std::int64_t rows : {4, 0}) check_one_sided(group, rows);
  group.all_reduce(at::empty({0}), ReduceOp::sum, "nothing");
  group.barrier("after");
}

}  // namespace

void require(bool condition, const std::string& what) {
  if (!condition) throw std::logic_error("wrong: " + what);
}

std::vector<int> all_ranks(const Communicator& c) {
  std::vector<int> ranks(static_cast<std::size_t>(c.world().size));
  std::iota(ranks.begin(), ranks.end(), 0);
  return ranks;
}

std::shared_ptr<Group> everyone(Communicator& c) { return c.group("all", all_ranks(c), at::kCPU); }

at::Tensor rough_values(int rank, std::int64_t size, at::ScalarType dtype) {
  const at::Tensor i = at::arange(size, at::kDouble);
  // Magnitudes from 1e-3 to 1e3 and both signs: almost every sum of three rounds differently in another order.
  const at::Tensor values = at::sin(i * 12.9898 + rank * 78.233) * at::pow(10.0, at::remainder(i + 2 * rank, 7) - 3);
  return (at::isIntegralType(dtype, false) ? at::trunc(values * 1000) : values).to(dtype);
}

void check_collectives(Communicator& c, bool ordered) {
  const auto world = everyone(c);
  check_group(*world, ordered);
  const int rank = c.world().rank;
  // Two groups at a time, as data and tensor parallel ones are; the second one in reverse order.
  std::vector<int> half;
  for (int r = rank % 2; r < c.world().size; r += 2) half.push_back(r);
  check_group(*c.group(cat("half ", rank % 2), half, at::kCPU), ordered);
  auto backwards = all_ranks(c);
  std::reverse(backwards.begin(), backwards.end());
  check_group(*c.group("backwards", backwards, at::kCPU), ordered);
}

}  // namespace comm_test
