// The "rank:" cases run in the processes that the others start.
#include "comm/torchrun_store.h"

#include <capstan_catch.h>

#include <ATen/ATen.h>
#include <torch/csrc/distributed/c10d/TCPStore.hpp>

#include <cstdlib>

#include "comm/collective_cases.h"
#include "comm/processes.h"
#include "support/errors.h"

namespace torchrun_store_test {

using namespace capstan;
using namespace capstan::comm;
using namespace std::chrono_literals;
using comm_test::as_rank;

namespace {

// What torchrun's agent runs.
c10::intrusive_ptr<c10d::TCPStore> agents_store() {
  c10d::TCPStoreOptions options;
  options.isServer = true;
  options.port = 0;
  options.waitWorkers = false;
  return c10::make_intrusive<c10d::TCPStore>("127.0.0.1", options);
}

}  // namespace

TEST_CASE("the store of torchrun's agent keeps what ranks write, apart from what has another prefix") {
  const auto agent = agents_store();
  const auto store = torchrun_stores().connect("127.0.0.1", agent->getPort(), "x", 5s);
  store->set("k", "v");
  store->append("k", "w");
  CHECK(store->clone()->get("k") == "vw");
  CHECK(store->port() == agent->getPort());
  CHECK(store->set_if_absent("k", "other") == "vw");
  CHECK(store->compare_and_set("k", "vw", "new") == "new");
  CHECK(store->add("number", 2) == 2);
  CHECK(store->count() > 1);
  CHECK(store->erase("number"));
  CHECK_FALSE(store->has({"k", "number"}));
  CHECK_FALSE(torchrun_stores().connect("127.0.0.1", agent->getPort(), "y", 5s)->has({"k"}));
}

TEST_CASE("that torchrun's agent is gone is said without c10d's stack trace") {
  const auto port = agents_store()->getPort();
  CHECK_THAT(test::error_of([&] { torchrun_stores().connect("127.0.0.1", port, "x", 300ms); }),
             Contains("the ranks' store does not answer: ") && !Contains("frame #"));
}

TEST_CASE("rank: of torchrun", "[.rank]") {
  auto options = comm_test::at_an_address();
  options.world.launcher = "torchrun";
  options.rendezvous.prefix = "attempt 0";
  options.rendezvous.store_exists = true;
  options.rendezvous.is_torch = true;
  as_rank(options, [](Communicator& c) {
    const auto sum = at::ones({3});
    comm_test::everyone(c)->all_reduce(sum, ReduceOp::sum, "ones");
    comm_test::require(sum.eq(3).all().item<bool>(), "a sum over Gloo");
    comm_test::require(c.exchange(std::to_string(c.world().rank)).back() == "2", "exchange");
  });
}

TEST_CASE("processes: ranks of torchrun find each other by its agent's store, and compute") {
  const auto agent = agents_store();
  setenv("COMM_TEST_PORT", std::to_string(agent->getPort()).c_str(), 1);
  comm_test::check_all_succeeded(comm_test::run_ranks("rank: of torchrun", 3));
}

}  // namespace torchrun_store_test
