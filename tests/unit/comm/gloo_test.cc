// The "rank:" cases run in the processes that the others start.
#include <capstan_catch.h>

#include <ATen/ATen.h>

#include <csignal>

#include "comm/collective_cases.h"
#include "comm/processes.h"
#include "step/staged_chain.h"
#include "support/in_stages.h"

namespace gloo_test {

namespace {
using namespace capstan;        // NOLINT(google-build-using-namespace)
using namespace capstan::comm;  // NOLINT(google-build-using-namespace)
using comm_test::as_rank;
using comm_test::check_all_succeeded;
using comm_test::everyone;
using comm_test::rank_options;
using comm_test::run_ranks;
using std::chrono::seconds;

TEST_CASE("rank: collectives", "[.rank]") {
  as_rank(rank_options(), [](Communicator& c) { comm_test::check_collectives(c, /*ordered=*/true); });
}

TEST_CASE("processes: every collective and dtype over Gloo, the same bits as in-process ranks") {
  check_all_succeeded(run_ranks("rank: collectives", 2));
  check_all_succeeded(run_ranks("rank: collectives", 3));
  check_all_succeeded(run_ranks("rank: collectives", 4));
}

TEST_CASE("rank: fast collectives", "[.rank]") {
  auto options = rank_options();
  options.deterministic = false;
  as_rank(options, [](Communicator& c) {
    comm_test::check_collectives(c, /*ordered=*/false);
    // A reduce-scatter has one order even so.
    const int size = c.world().size;
    std::vector<at::Tensor> wide;
    for (int r = 0; r < size; ++r) wide.push_back(comm_test::rough_values(r, std::int64_t{11} * size, at::kFloat));
    at::Tensor sum = wide[0].clone();
    for (int r = 1; r < size; ++r) sum.add_(wide[static_cast<std::size_t>(r)]);
    const at::Tensor out = at::empty({11});
    c.group("again", comm_test::all_ranks(c), at::kCPU)
        ->reduce_scatter(out, wide[static_cast<std::size_t>(c.world().rank)], "x");
    comm_test::require(out.equal(sum.narrow(0, std::int64_t{11} * c.world().rank, 11)), "reduce-scatter in rank order");
  });
}

TEST_CASE("processes: Gloo's own all-reduce without deterministic") {
  check_all_succeeded(run_ranks("rank: fast collectives", 3));
}

// Receives are posted before the sender sends, and each way is a group: several micro-batches are on their way at once.
TEST_CASE("rank: stages", "[.rank]") {
  as_rank(rank_options(), [](Communicator& c) {
    constexpr int micros = 4;
    const int ranks = c.world().size;
    const auto expected = testing::expected_gradients(micros);
    const auto check = [&](const strategy::Stages& stages) {
      for (const auto& [name, gradient] : testing::run_staged(c, stages, micros).gradients)
        comm_test::require(at::allclose(gradient, expected.at(name), 1e-13, 1e-13), "gradient of " + name);
    };
    if (ranks == 3) {
      check({{0, 1, 3}, {0, 1, 2}, [](int p, int m) { return testing::one_forward_one_backward(3, p, m); }});
      return;
    }
    const std::vector<int> positions{0, 1, 1, 0};
    check({{0, 1, 2, 3}, positions, [&](int p, int m) { return testing::all_forwards_first(positions, p, m); }});
  });
}

TEST_CASE("processes: stages exchange states and gradients over Gloo while they compute") {
  check_all_succeeded(run_ranks("rank: stages", 2));
  check_all_succeeded(run_ranks("rank: stages", 3));
}

TEST_CASE("rank: another size", "[.rank]") {
  auto options = rank_options();
  options.silence = seconds(3);
  options.deterministic = false;
  as_rank(options, [](Communicator& c) {
    auto group = everyone(c);
    group->barrier("start");
    const bool odd = c.world().rank == 1;
    if (odd) return group->all_reduce(at::ones({70000}), ReduceOp::sum, "blocks.12");
    group->all_reduce(at::ones({3}), ReduceOp::sum, "blocks.13");
  });
}

TEST_CASE("processes: collectives of different sizes end all ranks") {
  const auto ranks = run_ranks("rank: another size", 2);
  CHECK(ranks[0].exit_code == -SIGABRT);  // Gloo's own thread throws where nothing can catch it
  CHECK_THAT(ranks[0].output, Contains("Is there a distributed collective mismatch in your code?"));
  CHECK(ranks[1].exit_code == 75);
  CHECK_THAT(ranks[1].output, Contains("peer failed: rank 0 on here is gone: its connections are closed"));
}

}  // namespace

}  // namespace gloo_test
