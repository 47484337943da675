// Rows of several documents teach what each document teaches in a row of its own, in every family and on any layout.
#include <capstan_catch.h>
#include <capstan_places.h>

#include "checkpoint/scratch.h"
#include "support/families.h"
#include "support/small_run.h"

namespace documents_test {

using namespace capstan;
using capstan::testing::Family;
using capstan::testing::SmallRun;

namespace {

constexpr double tolerance = 1e-10;

// 24 texts of 5 to 51 bytes.
std::string texts() {
  std::string lines;
  for (std::size_t i = 0; i < 24; ++i) {
    std::string text;
    for (std::size_t t = 0; t < 5 + 2 * i; ++t) text += static_cast<char>('a' + (7 * t + 3 * i + t * t) % 26);
    lines += "{\"text\": \"" + text + "\"}\n";
  }
  return lines;
}

// Its masks are keyed by samples' ids, which differ here.
std::string without_dropout(const Family& family) { return family.plugin == "gpt" ? "dropout = 0.0\n" : ""; }

// A step is an epoch, so that both have the same documents in each.
SmallRun run(const Family& family, const std::string& data, int world = 1, const std::string& more = {}) {
  at::set_num_threads(1);
  const Scratch scratch;
  scratch.write("texts.jsonl", texts());
  const auto file = scratch.write(
      "a.toml", "[run]\nseed = 3\ndevice = \"cpu\"\n" + testing::family_config(family, 80) + without_dropout(family) +
                    "[data]\ntrain = \"texts.jsonl\"\nmax_length = 80\n" + data +
                    "[train]\nmax_steps = 3\nglobal_batch = 24\naccumulation = 1\nprecision = \"fp64\"\n"
                    "[optimizer]\nlr = 1e-2\nwarmup_steps = 1\nclip = 1.0\n" +
                    more);
  SmallRun result;
  testing::Collected collected(result);
  comm::run_in_process(world, [&](comm::Communicator& communicator) {
    const auto job = testing::prepare_small(file, {}, world, communicator.world().rank);
    testing::run_rank(job, communicator, 3, collected);
  });
  return result;
}

const char* const in_rows = "plugin = \"stream\"\nfill = \"best_fit\"\nderived = \"derived\"\npacking = true\n";

}  // namespace

TEST_CASE("float64: documents in full rows give the losses and gradients of documents in rows of their own",
          "[matrix][train][data]") {
  for (const auto& family : testing::odd_families()) {
    // A document's last token is read here and not there, which a mixture's balancing loss counts.
    if (family.plugin == "mixtral") continue;
    INFO(family.plugin);
    const auto apart = run(family, "plugin = \"jsonl\"\n");
    REQUIRE(apart.losses.back() < apart.losses.front());
    CHECK(testing::differences(run(family, in_rows), apart, tolerance) == "");
    CHECK(testing::differences(run(family, in_rows, 2, "[strategy.fsdp]\nmode = \"full_shard\"\n"), apart, tolerance) ==
          "");
  }
}

TEST_CASE("float64: documents stay apart where ranks share rows' columns, and see each other where a row is one text",
          "[matrix][train][data]") {
  const auto& family = testing::odd_families()[2];
  REQUIRE(family.plugin == "llama");
  const auto apart = run(family, "plugin = \"jsonl\"\n");
  for (const std::string method : {"ring", "gather"}) {
    const auto more = "[strategy.context_parallel]\nsize = 2\nmethod = \"" + method + "\"\n";
    CHECK(testing::differences(run(family, in_rows, 2, more), apart, tolerance) == "");
  }
  const auto as_one = run(family, std::string(in_rows) + "attend = \"row\"\n");
  CHECK(testing::differences(as_one, apart, 1e-3) != "");
}

TEST_CASE("documents that nothing would keep apart are refused before the first step") {
  const auto& family = testing::odd_families()[2];
  CHECK_THROWS_WITH(run(family, "plugin = \"stream\"\nderived = \"derived\"\n"),
                    Contains("samples of the training data have several documents") &&
                        Contains("set data.packing = true") && Contains("attend"));
}

}  // namespace documents_test
