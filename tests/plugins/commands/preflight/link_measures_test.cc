#include "plugins/commands/preflight/link_measures.h"

#include <capstan/base/text.h>
#include <capstan_catch.h>

#include <set>

namespace link_measures_test {

using namespace preflight;
using capstan::cat;
using capstan::comm::Communicator;
using capstan::comm::run_in_process;

namespace {

const c10::Device cpu(c10::kCPU);

}  // namespace

TEST_CASE("preflight: in its rounds every pair meets once") {
  for (const int size : {1, 2, 3, 4, 7, 8}) {
    std::set<std::pair<int, int>> met;
    const int rounds = size % 2 == 0 ? size - 1 : size;
    for (int round = 0; round < rounds; ++round) {
      for (int rank = 0; rank < size; ++rank) {
        const int other = partner(rank, size, round);
        REQUIRE(other >= 0);
        REQUIRE(other < size);
        CHECK(partner(other, size, round) == rank);
        if (rank < other) CHECK(met.emplace(rank, other).second);
      }
    }
    CHECK(static_cast<int>(met.size()) == size * (size - 1) / 2);
  }
}

TEST_CASE("preflight: collectives are measured with their values checked, pairs and gate on every number of ranks") {
  for (const int size : {2, 3, 4}) {
    run_in_process(size, [size](Communicator& c) {
      LinkMeasures links(c, cpu);
      for (const char* operation : {"all-reduce", "reduce-scatter", "all-gather"}) {
        const auto measured = links.collective(operation, 100'000, 1, 2);
        if (measured.operation != operation || measured.ranks != size || measured.seconds <= 0 ||
            !measured.wrong.empty() || measured.bytes != std::int64_t{4} * size * ((100'000 / 4 + size - 1) / size) ||
            measured.bus_gbps <= 0)
          throw std::runtime_error(cat(operation, " of ", size));
      }
      const auto pairs = links.pairs(10'000);
      if (static_cast<int>(pairs.size()) != size * (size - 1) / 2) throw std::runtime_error("pairs");
      for (const auto& pair : pairs) {
        if (pair.a >= pair.b || pair.gbps <= 0) throw std::runtime_error("a pair");
      }
      const auto gate = links.gate(100'000, 1, 2);
      if (!gate.problem.empty() || !gate.all || gate.all->ranks != size) throw std::runtime_error("gate");
    });
  }
}

TEST_CASE("preflight: all ranks look between the same parts, and may stop there") {
  run_in_process(3, [](Communicator& c) {
    struct Enough {};
    int looks = 0;
    LinkMeasures links(c, cpu, [&] {
      if (++looks == 5) throw Enough();
    });
    (void)links.collective("all-reduce", 100'000, 1, 20);  // of these, many are one part
    if (looks != 2) throw std::runtime_error(cat(looks, " looks"));
    try {
      (void)links.collective("all-reduce", 130LL << 20U, 1, 100);
      throw std::runtime_error("it continued");
    } catch (const Enough&) {
      if (looks != 5) throw std::runtime_error(cat(looks, " looks"));
    }
  });
}

TEST_CASE("preflight: a gate that cannot be allocated says on which rank") {
  run_in_process(2, [](Communicator& c) {
    const auto gate = LinkMeasures(c, cpu).gate(1LL << 60U, 0, 1);
    if (gate.all || gate.problem.find("rank 0 on ") != 0 || gate.problem.find("cannot allocate") == std::string::npos)
      throw std::runtime_error(gate.problem);
  });
}

}  // namespace link_measures_test
