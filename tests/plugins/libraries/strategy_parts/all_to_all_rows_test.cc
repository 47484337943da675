#include <ATen/ATen.h>
#include <capstan/comm/communicator.h>
#include <capstan/strategy_parts/collectives.h>
#include <capstan_catch.h>
#include <torch/csrc/autograd/autograd.h>

#include <numeric>

namespace all_to_all_rows_test {

using namespace capstan;

namespace {

using Counts = std::vector<std::vector<std::int64_t>>;  // [from][to] rows

/// What rank `from` sends: row i is from + i / 16 in its first column, which tells it from all others.
at::Tensor rows_of(std::size_t from, const Counts& counts) {
  const auto n = std::accumulate(counts[from].begin(), counts[from].end(), std::int64_t{0});
  return (at::arange(n, at::kDouble) / 16 + static_cast<double>(from)).unsqueeze(1).repeat({1, 3});
}

struct Received {
  std::vector<at::Tensor> rows;
  std::vector<at::Tensor> gradients;
};

/// Sends, weighs what arrives by its rank + 2, and sends gradients back.
Received send(const Counts& counts) {
  const auto size = counts.size();
  Received out{std::vector<at::Tensor>(size), std::vector<at::Tensor>(size)};
  comm::run_in_process(static_cast<int>(size), [&](comm::Communicator& communicator) {
    std::vector<int> ranks(size);
    std::iota(ranks.begin(), ranks.end(), 0);
    const auto group = communicator.group("test", ranks, at::kCPU);
    const auto me = static_cast<std::size_t>(group->rank());
    std::vector<std::int64_t> received;
    for (std::size_t from = 0; from < size; ++from) received.push_back(counts[from][me]);
    const auto x = rows_of(me, counts).requires_grad_(true);
    const auto y = ops::AllToAllRows(group, "rows")(x, counts[me], received);
    (y * y * (2.0 + static_cast<double>(me))).sum().backward();
    out.rows[me] = y.detach();
    out.gradients[me] = x.grad();
  });
  return out;
}

}  // namespace

TEST_CASE("rows go to other ranks, uneven and empty counts too, and gradients come back the same way") {
  for (const Counts& counts : {Counts{{1, 2}, {3, 0}}, Counts{{0, 5}, {0, 4}}, Counts{{0, 0}, {0, 0}},
                               Counts{{2, 0, 1}, {0, 0, 0}, {4, 1, 0}}, Counts{{0, 0, 0}, {0, 0, 0}, {0, 7, 0}}}) {
    const auto got = send(counts);
    for (std::size_t to = 0; to < counts.size(); ++to) {
      std::vector<at::Tensor> expected;
      std::vector<at::Tensor> gradient;
      for (std::size_t other = 0; other < counts.size(); ++other) {
        const auto offset = [&](std::size_t from, std::size_t at) {
          return std::accumulate(counts[from].begin(), counts[from].begin() + static_cast<std::ptrdiff_t>(at),
                                 std::int64_t{0});
        };
        expected.push_back(rows_of(other, counts).narrow(0, offset(other, to), counts[other][to]));
        gradient.push_back(rows_of(to, counts).narrow(0, offset(to, other), counts[to][other]) *
                           (2 * (2.0 + static_cast<double>(other))));
      }
      CHECK(at::equal(got.rows[to], at::cat(expected)));
      CHECK(at::equal(got.gradients[to], at::cat(gradient)));
    }
  }
}

TEST_CASE("rows in a group of one stay where they are, without a node") {
  comm::run_in_process(1, [](comm::Communicator& communicator) {
    const auto x = at::ones({3, 2}, at::kDouble).set_requires_grad(true);
    CHECK(ops::AllToAllRows(communicator.group("test", {0}, at::kCPU), "rows")(x, {3}, {3}).is_same(x));
  });
}

}  // namespace all_to_all_rows_test
