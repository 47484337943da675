#include <capstan/base/error.h>
#include <capstan/base/text.h>
#include <capstan/comm/communicator.h>
#include <capstan_catch.h>

#include <ATen/ATen.h>

#include <atomic>

#include "comm/collective_cases.h"

namespace in_process_test {

namespace {
using namespace capstan;        // NOLINT(google-build-using-namespace)
using namespace capstan::comm;  // NOLINT(google-build-using-namespace)

TEST_CASE("in-process: every collective and dtype, bit-exact sums in rank order") {
  for (const int size : {1, 2, 3, 4}) {
    run_in_process(size, [](Communicator& c) { comm_test::check_collectives(c, /*ordered=*/true); });
  }
}

TEST_CASE("in-process: the sum's order is the ranks' order") {
  // (1e8 + 1) - 1e8 is 0 in float32, 1e8 - 1e8 + 1 is 1: an order that any other would betray.
  run_in_process(3, [](Communicator& c) {
    const float values[] = {1e8F, 1.0F, -1e8F};
    const at::Tensor t = at::full({5}, values[c.world().rank], at::kFloat);
    comm_test::everyone(c)->all_reduce(t, ReduceOp::sum, "order");
    comm_test::require(t.equal(at::zeros({5})), "sum in rank order");
  });
}

TEST_CASE("in-process: world and exchange") {
  std::atomic<int> seen{0};
  run_in_process(3, [&](Communicator& c) {
    comm_test::require(c.world().size == 3 && c.world().local_size == 3 && c.world().launcher == "in-process", "world");
    comm_test::require(c.backend(at::kCPU) == "in-process", "backend");
    const int rank = c.world().rank;
    const auto texts = c.exchange(std::string(static_cast<std::size_t>(rank) * 3, static_cast<char>('a' + rank)));
    comm_test::require(texts == std::vector<std::string>{"", "bbb", "cccccc"}, "exchange");
    ++seen;
  });
  CHECK(seen == 3);
}

TEST_CASE("in-process: leaves autograd alone") {
  run_in_process(2, [](Communicator& c) {
    const at::Tensor leaf = at::ones({4}, at::kDouble).requires_grad_();
    const at::Tensor square = leaf * leaf;
    const auto version = leaf._version();
    comm_test::everyone(c)->all_reduce(leaf, ReduceOp::sum, "leaf");
    comm_test::require(
        leaf._version() == version && leaf.is_leaf() && leaf.detach().equal(at::full({4}, 2.0, at::kDouble)),
        "no version counter, no node");
    square.sum().backward();  // sees the new value, as a parameter gathered again does
    comm_test::require(leaf.grad().equal(at::full({4}, 4.0, at::kDouble)), "gradient");
  });
}

TEST_CASE("in-process: an all-reduce may be started and waited for later") {
  run_in_process(3, [](Communicator& c) {
    auto group = comm_test::everyone(c);
    auto other = c.group("other", comm_test::all_ranks(c), at::kCPU);
    const at::Tensor counted = at::full({2}, c.world().rank + 1, at::kLong);
    auto pending = group->start_all_reduce(counted, ReduceOp::sum, "tokens");
    const at::Tensor loss = at::ones({1}, at::kDouble);
    other->all_reduce(loss, ReduceOp::sum, "loss");
    pending->wait();
    comm_test::require(counted.equal(at::full({2}, 6, at::kLong)) && loss.item<double>() == 3, "both sums");
  });
}

// As on a GPU, where the result may be late: who reads too early is found out.
TEST_CASE("in-process: what was started is there when it was waited for, not before") {
  run_in_process(2, [](Communicator& c) {
    const auto group = comm_test::everyone(c);
    const at::Tensor mine = at::full({2}, c.world().rank + 1, at::kLong);
    const at::Tensor all = at::zeros({4}, at::kLong);
    const auto gather = group->start_all_gather(all, mine, "gather");
    const bool early = all.ne(0).any().item<bool>();
    gather->wait();
    comm_test::require(!early && all.equal(at::tensor({1, 1, 2, 2}, at::kLong)), "all-gather");
    const at::Tensor part = at::zeros({2}, at::kLong);
    const auto reduce = group->start_reduce_scatter(part, all, "reduce");
    const bool early_sum = part.ne(0).any().item<bool>();
    reduce->wait();
    comm_test::require(!early_sum && part.equal(at::full({2}, c.world().rank == 0 ? 2 : 4, at::kLong)),
                       "reduce-scatter");
  });
}

TEST_CASE("in-process: a rank that throws wakes the others, and its exception comes out") {
  std::atomic<int> woken{0};
  const auto run = [&] {
    run_in_process(4, [&](Communicator& c) {
      auto group = comm_test::everyone(c);
      group->barrier("start");
      if (c.world().rank == 2) throw Error("the disk is full", "free some space");
      try {
        for (;;) group->all_reduce(at::ones({3}), ReduceOp::sum, "gradients");
      } catch (const Error& error) {
        if (std::string(error.what()).find("rank 2 failed: the disk is full") != std::string::npos) ++woken;
        throw;
      }
    });
  };
  CHECK_THROWS_WITH(run(), Contains("the disk is full") && Contains("free some space") && !Contains("rank 2 failed"));
  CHECK(woken == 3);
}

TEST_CASE("in-process: report_failure reaches every rank") {
  std::atomic<int> woken{0};
  const auto run = [&] {
    run_in_process(3, [&](Communicator& c) {
      auto group = comm_test::everyone(c);
      if (c.world().rank == 1) c.report_failure("no such file: a.json");
      try {
        for (;;) group->barrier("wait");
      } catch (const Error&) {
        ++woken;
      }
    });
  };
  CHECK_THROWS_WITH(run(), Contains("rank 1 failed: no such file: a.json"));
  CHECK(woken == 3);
}

TEST_CASE("in-process: mistakes that would hang are errors") {
  SECTION("a rank ends without calling what the others wait for") {
    const auto run = [] {
      run_in_process(3, [](Communicator& c) {
        auto group = comm_test::everyone(c);
        if (c.world().rank != 1) group->barrier("end");
      });
    };
    CHECK_THROWS_WITH(run(), Contains("rank 1 has ended while group all waits for it"));
  }
  SECTION("ranks call different collectives") {
    const auto run = [] {
      run_in_process(2, [](Communicator& c) {
        comm_test::everyone(c)->all_reduce(at::ones({3 + c.world().rank}), ReduceOp::sum, "loss");
      });
    };
    CHECK_THROWS_WITH(
        run(),
        Contains("group all: ranks call different collectives: rank 0: all-reduce of 3 Float; rank 1: all-reduce of "
                 "4 Float"));
  }
  SECTION("counts of an all-to-all do not fit") {
    const auto run = [] {
      run_in_process(2, [](Communicator& c) {
        const bool first = c.world().rank == 0;
        comm_test::everyone(c)->all_to_all(at::empty({first ? 3 : 2}), at::ones({2}),
                                           first ? std::vector<std::int64_t>{1, 2} : std::vector<std::int64_t>{1, 1},
                                           {1, 1}, "tokens");
      });
    };
    CHECK_THROWS_WITH(run(), Contains("all-to-all of group all: rank 1 sends 1 rows where rank 0 expects 2"));
  }
}

TEST_CASE("in-process: a group or tensor that is wrong is an error") {
  SECTION("a group's name is used twice") {
    const auto run = [] {
      run_in_process(2, [](Communicator& c) {
        comm_test::everyone(c)->barrier("a");
        comm_test::everyone(c)->barrier("b");
      });
    };
    CHECK_THROWS_WITH(run(), Contains("the group name 'all' is used twice"));
  }
  SECTION("ranks disagree about the members") {
    const auto run = [] {
      run_in_process(2, [](Communicator& c) {
        (void)c.group("x", c.world().rank == 0 ? std::vector<int>{0, 1} : std::vector<int>{1, 0}, at::kCPU);
      });
    };
    CHECK_THROWS_WITH(run(), Contains("ranks disagree about the members of group x"));
  }
  SECTION("a tensor that is not contiguous") {
    const auto run = [] {
      run_in_process(2, [](Communicator& c) {
        comm_test::everyone(c)->all_reduce(at::ones({3, 2}).t(), ReduceOp::sum, "loss");
      });
    };
    CHECK_THROWS_WITH(run(), Contains("all-reduce 'loss' of group all: the tensor is not contiguous"));
  }
  SECTION("a GPU") {
    const auto run = [] {
      run_in_process(1, [](Communicator& c) { (void)c.group("gpu", {0}, c10::Device(c10::kCUDA, 0)); });
    };
    CHECK_THROWS_WITH(run(), Contains("in-process ranks work on the CPU only"));
  }
}

}  // namespace

}  // namespace in_process_test
