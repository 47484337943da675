// Recomputation changes memory and the number of forwards, and no number.
#include "plugins/strategies/recompute/recompute.h"

#include <ATen/core/grad_mode.h>
#include <capstan/strategy_parts/claims.h>
#include <capstan_catch.h>
#include "step/to_device.h"
#include "step/unit_runner.h"

#include <memory>

#include "memory.h"
#include "predict/dry_job.h"
#include "strategy/tiny_units.h"
#include "support/pairwise.h"
#include "support/small_run.h"

namespace recompute_test {

using namespace capstan;
using testing::SmallRun;

namespace {

struct Case {
  const char* name;
  const char* table;  // "" = without the plugin
};

const Case cases[] = {
    {"every unit", "[strategy.recompute]\n"},
    {"every second unit", "[strategy.recompute]\nevery = 2\n"},
    {"attention", "[strategy.recompute]\nregions = [\"attention\"]\n"},
    {"mlp", "[strategy.recompute]\nregions = [\"mlp\"]\n"},
    {"both regions of every second unit", "[strategy.recompute]\nevery = 2\nregions = [\"mlp\", \"attention\"]\n"},
    {"every unit, in host memory", "[strategy.recompute]\noffload = 1.0\n"},
    {"both regions, half of them in host memory",
     "[strategy.recompute]\nregions = [\"mlp\", \"attention\"]\noffload = 0.5\n"},
};

void check_bit_equal(const std::map<std::string, at::Tensor>& a, const std::map<std::string, at::Tensor>& b) {
  REQUIRE(a.size() == b.size());
  for (const auto& [name, tensor] : b) {
    INFO(name);
    CHECK(at::equal(a.at(name), tensor));
  }
}

std::unique_ptr<recompute::Recompute> make(std::vector<config::Entry> entries) {
  Diagnostics diagnostics;
  int line = 7;
  for (auto& entry : entries) entry.origin = {config::Origin::Layer::file, "a.toml", line++};
  config::Options<recompute::RecomputeOptions> options({"strategy.recompute", {}, std::move(entries)}, diagnostics);
  diagnostics.throw_if_any();
  return std::make_unique<recompute::Recompute>(std::move(options));
}

config::Entry every(std::int64_t count) { return {"every", count, {}, {}}; }
config::Entry regions(std::vector<std::string> names) { return {"regions", std::move(names), {}, {}}; }

/// A unit with regions, for messages.
class Named : public nn::Unit {
 public:
  Named(const std::string& name, const std::vector<std::string>& regions) : Unit(name) {
    for (const auto& region : regions) regions_.push_back(std::make_unique<nn::Region>(*this, region));
  }
  nn::Hidden forward(nn::Hidden hidden, const nn::Batch&, nn::KVCache*) override { return hidden; }

 private:
  std::vector<std::unique_ptr<nn::Region>> regions_;
};

std::vector<std::unique_ptr<nn::Unit>> chain(const std::vector<std::string>& in_blocks) {
  std::vector<std::unique_ptr<nn::Unit>> units;
  units.push_back(std::make_unique<Named>("embedding", std::vector<std::string>{}));
  units.push_back(std::make_unique<Named>("blocks.0", in_blocks));
  units.push_back(std::make_unique<Named>("blocks.1", in_blocks));
  units.push_back(std::make_unique<Named>("head", std::vector<std::string>{}));
  return units;
}

/// One rank's session with the plugin's table, and a batch.
struct One {
  job::Job job;
  step::Session session;
  nn::Batch batch;
  One(comm::Communicator& communicator, const std::string& table)
      : job(testing::prepare_small(testing::small_config(table), {}, 1, 0)),
        session(step::materialise(job, communicator)),
        batch(step::to_device(step::Feed(job).draw(0).micro.front(), session.device)) {
    batch.training = true;
    session.engine->begin_backward(0);
  }
};

/// Bytes that a forward leaves for its backward.
std::int64_t kept_by_forward(const std::string& table) {
  at::set_num_threads(1);
  std::int64_t kept = 0;
  comm::run_in_process(1, [&](comm::Communicator& communicator) {
    One one(communicator, table);
    const testing::LiveBytes live;
    const auto loss = one.session.runner->forward(one.batch).states;
    kept = live.now();
    one.session.runner->backward(loss, at::ones_like(loss));
  });
  return kept;
}

/// How often linear_qkv and linear_fc1 of each block ran in one forward and backward.
std::vector<int> runs_of_linears(const std::string& table) {
  std::vector<int> counts(4, 0);
  comm::run_in_process(1, [&](comm::Communicator& communicator) {
    One one(communicator, table);
    for (std::size_t block = 0; block < 2; ++block) {
      for (std::size_t i = 0; i < 2; ++i) {
        one.session.units[block + 1]->all<nn::Linear>()[2 * i]->before.fill("test",
                                                                            [&counts, block, i](const at::Tensor& x) {
                                                                              ++counts[2 * block + i];
                                                                              return x;
                                                                            });
      }
    }
    const auto loss = one.session.runner->forward(one.batch).states;
    one.session.runner->backward(loss, at::ones_like(loss));
    const at::NoGradGuard no_grad;  // an evaluation runs everything once more
    one.session.runner->forward(one.batch);
  });
  return counts;
}

}  // namespace

namespace {

// A choice has ranks, mode, accumulation and case.
void check_recomputed(const testing::Choice& c) {
  const int world = static_cast<int>(c[0]) + 1;
  const auto& one = cases[c[3]];
  // Six blocks: what waits in host memory leaves but for the last two.
  const std::vector<std::string> overrides{
      "train.precision=fp32",  "model.dropout=0.2",  "run.deterministic=true",
      "train.global_batch=12", "model.num_layers=6", c[2] == 0 ? "train.accumulation=1" : "train.accumulation=2"};
  const std::string fsdp =
      c[1] == 0 ? "[strategy.fsdp]\nmode = \"full_shard\"\n" : "[strategy.fsdp]\nmode = \"no_shard\"\n";
  static std::map<testing::Choice, SmallRun> without;
  auto& plain = without[{c[0], c[1], c[2]}];
  if (plain.losses.empty()) plain = testing::run_small(world, overrides, 2, fsdp);
  INFO("world " << world << ", " << overrides.back() << ", " << one.name << "\n" << fsdp);
  const auto run = testing::run_small(world, overrides, 2, fsdp + one.table);
  CHECK(run.losses == plain.losses);
  CHECK(run.norms == plain.norms);
  check_bit_equal(run.gradients, plain.gradients);
  check_bit_equal(run.weights, plain.weights);
}

const std::vector<std::size_t> recomputed_levels{3, 2, 2, std::size(cases)};
bool is_sharded_or_copied(const testing::Choice& c) { return c[0] > 0 || c[1] == 0; }

}  // namespace

TEST_CASE("losses, gradients and weights are bit-equal with and without recomputation: a pairwise cover", "[matrix]") {
  for (const auto& choice : testing::pairwise(recomputed_levels, is_sharded_or_copied)) check_recomputed(choice);
}

TEST_CASE("losses, gradients and weights are bit-equal with and without recomputation, on every layout",
          "[.][full][matrix]") {
  testing::each_choice(recomputed_levels, [](const testing::Choice& choice) {
    if (is_sharded_or_copied(choice)) check_recomputed(choice);
  });
}

TEST_CASE("attention that is kept changes no bit", "[matrix]") {
  const int world = GENERATE(1, 2);
  const std::vector<std::string> overrides{"train.precision=fp32",   "model.dropout=0.2",  "model.attention_dropout=0",
                                           "run.deterministic=true", "model.num_layers=6", "train.accumulation=2",
                                           "train.global_batch=8"};
  const std::string fsdp = "[strategy.fsdp]\n";
  const auto plain = testing::run_small(world, overrides, 2, fsdp);
  for (const std::string table : {"", "every = 2\n", "offload = 1.0\n", "offload = 0.5\n"}) {
    INFO("world " << world << ", " << table);
    const auto run =
        testing::run_small(world, overrides, 2, cat(fsdp, "[strategy.recompute]\nkeep_attention = true\n", table));
    CHECK(run.losses == plain.losses);
    CHECK(run.norms == plain.norms);
    check_bit_equal(run.gradients, plain.gradients);
    check_bit_equal(run.weights, plain.weights);
  }
}

TEST_CASE("a forward keeps less for its backward, the less the more is recomputed") {
  const auto plain = kept_by_forward("");
  const auto each = kept_by_forward(cases[0].table);
  const auto second = kept_by_forward(cases[1].table);
  const auto attention = kept_by_forward(cases[2].table);
  const auto mlp = kept_by_forward(cases[3].table);
  const auto both = kept_by_forward("[strategy.recompute]\nregions = [\"attention\", \"mlp\"]\n");
  INFO("bytes: plain " << plain << ", every unit " << each << ", every second " << second << ", attention " << attention
                       << ", mlp " << mlp << ", both " << both);
  CHECK(second < plain);
  CHECK(each < second);
  CHECK(attention < plain);
  CHECK(mlp < plain);
  // Regions save apart from each other, and whole units more than their regions.
  CHECK(plain - both == (plain - attention) + (plain - mlp));
  CHECK(each < both);
}

TEST_CASE("what is recomputed runs twice, all else once; evaluation recomputes nothing") {
  // Attention and feed-forward of the first block, then of the second; the evaluation after adds one each.
  CHECK(runs_of_linears("") == std::vector<int>{2, 2, 2, 2});
  CHECK(runs_of_linears("[strategy.recompute]\n") == std::vector<int>{3, 3, 3, 3});
  CHECK(runs_of_linears("[strategy.recompute]\nevery = 2\n") == std::vector<int>{3, 3, 2, 2});
  CHECK(runs_of_linears("[strategy.recompute]\nevery = 3\n") == std::vector<int>{2, 2, 3, 3});
  CHECK(runs_of_linears("[strategy.recompute]\nregions = [\"attention\"]\n") == std::vector<int>{3, 2, 3, 2});
  CHECK(runs_of_linears("[strategy.recompute]\nregions = [\"mlp\"]\nevery = 3\n") == std::vector<int>{2, 2, 2, 3});
}

TEST_CASE("every Nth unit, never the last") {
  const auto chosen = [](std::int64_t count) {
    auto strategy = make({every(count)});
    auto units = chain({});
    strategy->structure(units);
    std::vector<bool> answers;
    for (std::size_t i = 0; i < units.size(); ++i) answers.push_back(strategy->recompute(*units[i], i));
    return answers;
  };
  CHECK(chosen(1) == std::vector<bool>{true, true, true, false});
  CHECK(chosen(2) == std::vector<bool>{false, true, false, false});
  CHECK(chosen(3) == std::vector<bool>{false, false, true, false});
}

TEST_CASE("units before the first trainable one run once: they have no backward") {
  testing::TinyChain tiny;
  tiny.push_back(std::make_unique<testing::TinyTable>(testing::tiny_weight("table", {7, 5}, false), false));
  for (const bool trainable : {false, true, false}) {
    tiny.push_back(std::make_unique<testing::TinyLayer>("layer" + std::to_string(tiny.size()), trainable,
                                                        testing::TinyLayer::Sizes{}, 0.1));
  }
  tiny.push_back(std::make_unique<testing::TinyHead>(testing::tiny_weight("head", {6, 5}, true)));
  testing::bind_leaves(tiny);
  std::vector<std::unique_ptr<nn::Unit>> units;  // the strategy's view; given back below
  for (auto& unit : tiny) units.emplace_back(unit.get());
  auto strategy = make({});
  strategy->structure(units);
  step::UnitRunner runner(testing::pointers(tiny));
  for (std::size_t i = 0; i < units.size(); ++i) runner.set_recompute(i, strategy->recompute(*units[i], i));
  for (auto& unit : units) static_cast<void>(unit.release());
  const auto loss = runner.forward(testing::tiny_batch(0)).states;
  runner.backward(loss, at::ones({}, at::kDouble));
  std::vector<int> forwards;
  for (const auto& unit : tiny) forwards.push_back(unit->forwards);
  CHECK(forwards == std::vector<int>{1, 1, 2, 2, 1});
}

TEST_CASE("regions that the model does not have, and a distance that leaves nothing, are said with line and fix") {
  const auto said = [](std::vector<config::Entry> entries, const std::vector<std::string>& in_blocks) {
    auto units = chain(in_blocks);
    try {
      make(std::move(entries))->structure(units);
    } catch (const Error& error) {
      std::string texts;
      for (const auto& diagnostic : error.diagnostics()) texts += diagnostic.text() + "\n";
      return texts;
    }
    return std::string("nothing");
  };
  const std::vector<std::string> known{"attention", "mlp"};
  CHECK(said({regions({"mlp", "attention"})}, known) == "nothing");
  CHECK(said({regions({"atention", "router"})}, known) ==
        "a.toml:7: strategy.recompute.regions names 'atention', but this model's regions are attention, mlp\n"
        "    fix: did you mean 'attention'?\n"
        "a.toml:7: strategy.recompute.regions names 'router', but this model's regions are attention, mlp\n"
        "    fix: one of: attention, mlp\n");
  CHECK(said({regions({"mlp"})}, {}) ==
        "a.toml:7: strategy.recompute.regions is set, but this model names no regions\n"
        "    fix: remove it: whole units are then recomputed\n");
  CHECK(said({every(4)}, known) ==
        "a.toml:7: strategy.recompute.every 4 leaves nothing to recompute: without the last one the model has 3 units\n"
        "    fix: use at most 3, or remove this strategy\n");
  CHECK(said({{"keep_attention", true, {}, {}}}, known) ==
        "a.toml:7: strategy.recompute.keep_attention is set, but no unit that is recomputed has an nn::Attention\n"
        "    fix: remove it\n");
}

TEST_CASE("units that lack a named region are said to keep what it computes, and nothing of them waits") {
  std::vector<std::unique_ptr<nn::Unit>> units;
  units.push_back(std::make_unique<Named>("embedding", std::vector<std::string>{}));
  for (const auto* region : {"attention", "mlp", "mlp"})
    units.push_back(std::make_unique<Named>("block", std::vector<std::string>{"mlp", region}));
  units.push_back(std::make_unique<Named>("head", std::vector<std::string>{}));
  const auto strategy = make({regions({"attention"}), {"offload", 1.0, {}, {}}});
  strategy->structure(units);
  CHECK(strategy->notes() ==
        std::vector<std::string>{"note: strategy.recompute.regions: 2 units without a region 'attention' keep what it "
                                 "computes"});
  strategy::Facts facts;
  facts.sequence_length = 10;
  facts.model.hidden_size = 4;
  facts.precision = "fp32";
  facts.device = "cpu";
  REQUIRE(strategy->footprint(facts).size() == 1);
  CHECK(strategy->footprint(facts).front().bytes == 10 * 4 * 4);
  const auto whole = make({regions({"mlp"})});
  whole->structure(units);
  CHECK(whole->notes().empty());
}

TEST_CASE("attention is not kept where its kernels do not run, or run in other hands") {
  const auto said = [](const std::string& more, int world, const std::vector<std::string>& overrides) -> std::string {
    try {
      testing::run_small(world, overrides, 1, "[strategy.recompute]\nkeep_attention = true\n" + more);
    } catch (const Error& error) {
      return error.what();
    }
    return "nothing";
  };
  CHECK(said("", 1, {"model.attention_dropout=0"}) == "nothing");
  CHECK_THAT(said("", 1, {"model.attention_dropout=0.1"}),
             Contains("strategy.recompute.keep_attention is set, but the model has dropout on attention's"));
  CHECK_THAT(said("regions = [\"mlp\"]\n", 1, {}), Contains("is for units that are recomputed as a whole") &&
                                                       Contains("remove strategy.recompute.keep_attention, or "));
  CHECK_THAT(said("[strategy.context_parallel]\nsize = 2\nmethod = \"ring\"\n", 2, {}),
             Contains("both claim the kernels of attention, one for strategy.context_parallel.method = \"ring\", the "
                      "other for strategy.recompute.keep_attention"));
}

TEST_CASE("a region of a model that is missing ends the run with the plugin's name") {
  CHECK_THROWS_WITH(testing::run_small(1, {}, 1, "[strategy.recompute]\nregions = [\"attenton\"]\n"),
                    Contains("strategy.recompute.regions names 'attenton'") && Contains("did you mean 'attention'?") &&
                        Contains("recompute"));
}

namespace {

constexpr std::int64_t gpu_layers = 8, of_an_input = testing::rows * testing::length * 64 * 2;

job::Job on_a_gpu(const std::string& table, const std::vector<std::string>& more = {}) {
  auto overrides = more;
  overrides.insert(overrides.end(), {cat("model.num_layers=", gpu_layers), "train.pad_to_multiple=64"});
  return testing::job_of(testing::small(testing::llama, "bf16", table), "cuda", 1, overrides);
}

std::int64_t predicted_on_host(const job::Job& job) {
  std::int64_t bytes = 0;
  for (const auto& part : job.prediction.footprints) {
    const bool is_kept = part.part == "inputs of what is recomputed" || part.part == "what attention computed";
    if (part.device == "host" && is_kept) bytes += part.bytes;
  }
  return bytes;
}

}  // namespace

TEST_CASE("what waits in host memory is predicted there, and not on the GPU but for what is on its way") {
  const auto here = on_a_gpu("[strategy.recompute]\n");
  CHECK(predicted_on_host(here) == 0);
  const auto kept = testing::dry_run_on_gpu(here).kept;
  const auto away = on_a_gpu("[strategy.recompute]\noffload = 1.0\n");
  CHECK(predicted_on_host(away) == gpu_layers * of_an_input);
  CHECK(kept - testing::dry_run_on_gpu(away).kept == (gpu_layers - 2) * of_an_input);
  const auto half = on_a_gpu("[strategy.recompute]\noffload = 0.5\n");
  CHECK(predicted_on_host(half) == gpu_layers / 2 * of_an_input);
  CHECK(kept - testing::dry_run_on_gpu(half).kept == (gpu_layers / 2 - 2) * of_an_input);
}

TEST_CASE("attention that is kept is predicted, and is computed once") {
  // In bf16, with a number in fp32 for each row of each head.
  constexpr std::int64_t heads = 4, of_results = of_an_input, of_sums = testing::rows * testing::length * heads * 4;
  const auto again = testing::dry_run_on_gpu(on_a_gpu("[strategy.recompute]\n"));
  const auto kept = testing::dry_run_on_gpu(on_a_gpu("[strategy.recompute]\nkeep_attention = true\n"));
  CHECK(kept.kept - again.kept == gpu_layers * (of_results + of_sums));
  const auto away = on_a_gpu("[strategy.recompute]\nkeep_attention = true\noffload = 1.0\n");
  CHECK(predicted_on_host(away) == gpu_layers * (of_an_input + of_results));
  CHECK(kept.kept - testing::dry_run_on_gpu(away).kept == (gpu_layers - 2) * (of_an_input + of_results));
}

TEST_CASE("a peak with tiles has the inner activations of one tile") {
  const std::string table = "[strategy.recompute]\n";
  const std::vector<std::string> wide{"model.ff_dim=4096"};
  const auto whole = testing::dry_run_on_gpu(on_a_gpu(table, wide)).bytes();
  const auto tiled = testing::dry_run_on_gpu(on_a_gpu(table + "tile_tokens = 32\n", wide)).bytes();
  // Gate, up and their gradients of 256 tokens. A tile has an eighth of them.
  constexpr std::int64_t of_a_feed_forward = testing::rows * testing::length * 4 * 4096 * 2;
  // Sums of the gradients of the three matrices are in fp32 meanwhile.
  constexpr std::int64_t sums = std::int64_t{3} * 64 * 4096 * 4;
  INFO(whole << " " << tiled);
  CHECK(whole - tiled > of_a_feed_forward / 8 * 7 - sums);
}

TEST_CASE("unit recompute is claimed for itself") {
  strategy::Claims claims;
  make({})->claim(claims);
  CHECK(claims.exclusive_claims() == std::vector<std::string>{"unit recompute"});
  strategy::Claims more;
  make({{"keep_attention", true, {}, {}}})->claim(more);
  CHECK(more.exclusive_claims() == std::vector<std::string>{"unit recompute", strategy::attention_kernels});
}

}  // namespace recompute_test
