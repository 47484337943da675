// strategy.tensor_parallel.async changes when collectives run, and no number.
#include <ATen/Parallel.h>
#include <capstan/base/text.h>
#include <capstan/comm/communicator.h>
#include <capstan/testing.h>
#include <capstan_catch.h>

#include <algorithm>
#include <map>

#include "nn/weights.h"
#include "plugins/strategies/tensor_parallel/tensor_parallel.h"
#include "support/families.h"
#include "support/noted_group.h"

using namespace capstan;
using namespace capstan::testing;

namespace {

/// A table of words, a layer whose results are cut, and one whose inputs are.
class Small : public nn::Unit {
 public:
  Small()
      : Unit("small"),
        table_(*this, "table", nn::Split::vocabulary, make("table.weight", {7, 4})),
        up_(*this, "up", nn::Split::columns, make("up.weight", {6, 4}), make("up.bias", {6})),
        down_(*this, "down", nn::Split::rows, make("down.weight", {5, 6}), nullptr) {}
  nn::Hidden forward(nn::Hidden, const nn::Batch& batch, nn::KVCache*) override {
    nn::Hidden out;
    out.states = down_.forward(up_.forward(table_.forward(batch.tokens)));
    return out;
  }
  nn::Linear& up() { return up_; }

 private:
  nn::WeightPtr make(const std::string& name, const layout::Shape& shape) {
    return add_record(name, shape, layout::Init::zeros(), true);
  }
  nn::Embedding table_;
  nn::Linear up_;
  nn::Linear down_;
};

/// This rank's part of every weight.
void bind_parts(nn::Unit& unit, const layout::Mesh& mesh, int rank) {
  for (const auto& weight : unit.weights()) {
    const auto& record = weight->records().front();
    const auto box = record.compute.box(record.shape, mesh, rank);
    auto part = numbers(record.shape, static_cast<double>(record.name.size()));
    for (std::size_t d = 0; d < box.size.size(); ++d)
      part = part.narrow(static_cast<std::int64_t>(d), box.offset[d], box.size[d]);
    weight->bind(part.clone().requires_grad_(record.trainable));
  }
}

struct How {
  bool async = true;
  bool sequence = false;
  bool frozen = false;   ///< the layer whose results are cut
  bool adapter = false;  ///< beside it
};

std::unique_ptr<strategy::Strategy> plugin(const How& how) {
  Diagnostics diagnostics;
  std::vector<config::Entry> entries{
      {"size", std::int64_t{2}, {}}, {"async", how.async, {}}, {"sequence_parallel", how.sequence, {}}};
  config::Options<tensor_parallel::TensorParallelOptions> options({"strategy.tensor_parallel", {}, std::move(entries)},
                                                                  diagnostics);
  diagnostics.throw_if_any();
  return std::make_unique<tensor_parallel::TensorParallel>(std::move(options));
}

/// What backward of the small unit does on each of two ranks: two products of `down`, then those of `up`.
Trace backward(const How& how) {
  at::set_num_threads(1);
  std::vector<Trace> traces(2);
  comm::run_in_process(2, [&](comm::Communicator& communicator) {
    const auto rank = communicator.world().rank;
    auto& trace = traces[static_cast<std::size_t>(rank)];
    const layout::Mesh mesh({1, 1, 1, 2});
    auto group = std::make_shared<NotedGroup>(communicator.group("tp", {0, 1}, at::kCPU), trace);
    Small unit;
    unit.up().weight()->records().front().trainable = !how.frozen;
    const auto strategy = plugin(how);
    strategy->place(unit, {mesh, rank, [&](const auto&) { return group; }});
    if (how.adapter)
      unit.up().adapter.fill("test", [](const at::Tensor& x, const at::Tensor& y) { return y + x.sum(); });
    bind_parts(unit, mesh, rank);
    nn::Batch batch;
    batch.tokens = at::arange(10, at::kLong).remainder(7).view({2, 5});
    const auto loss = unit.forward({}, batch, nullptr).states.square().sum();
    trace.clear();
    const NotedProducts products(trace);
    loss.backward();
  });
  CHECK(traces.front() == traces.back());
  return traces.front();
}

bool starts_nothing(const Trace& trace) {
  return std::none_of(trace.begin(), trace.end(), [](const auto& entry) { return entry.starts_with("start"); });
}

/// One way to train: more tables, and what else is in [strategy.tensor_parallel].
struct Way {
  std::string strategies;
  std::string tensor;
};

const std::vector<Way>& ways() {
  static const std::vector<Way> list{
      {"", ""},
      {"", "sequence_parallel = true\n"},
      {"[strategy.recompute]\n", "sequence_parallel = true\nvocab_parallel = false\n"},
      {"[strategy.recompute]\nregions = [\"attention\", \"mlp\"]\n", ""},
      {"[strategy.recompute]\nregions = [\"attention\", \"mlp\"]\n[strategy.fsdp]\n", "sequence_parallel = true\n"},
  };
  return list;
}

/// Adapters beside attention; the first product of the feed-forward layer, or what a mixture has instead, is trained.
std::string adapters(const Family& family) {
  const bool mixture = family.options.find("num_experts") != std::string::npos;
  const std::map<std::string, std::string> first{{"gpt", "\"c_fc\""}, {"bloom", "\"dense_h_to_4h\""}};
  const auto found = first.find(family.plugin);
  const std::string trained = mixture                ? "\"q_proj\", \"k_proj\", \"v_proj\""
                              : found == first.end() ? "\"gate_proj\", \"up_proj\""
                                                     : found->second;
  return cat("[strategy.lora]\nrank = 3\ninit = \"random\"\ntargets = [\"", mixture ? "linear_proj" : "linear_qkv",
             "\"]\nmodules_to_save = [", trained, "]\n");
}

void check_same_bits(const Family& family, const Way& way, bool with_adapters, const std::string& precision) {
  const auto run = [&](const std::string& more) {
    auto config = family_config(family) + way.strategies;
    if (with_adapters) config += adapters(family);
    config += "[strategy.tensor_parallel]\nsize = 2\n" + way.tensor + more;
    INFO(config);
    return train({.world = 4, .config = config, .overrides = {"train.precision=" + precision}, .steps = 3});
  };
  INFO(family.plugin << " " << precision << ", adapters " << with_adapters << "\n" << way.strategies << way.tensor);
  CHECK(differences(run("async = true\n"), run(""), 0) == "");
}

}  // namespace

TEST_CASE("async: a column-split layer's weight gradient is made while its input's is summed") {
  CHECK(backward({}) == Trace{"mm", "mm", "mm", "start all-reduce all-reduce tp small up, backward", "mm", "wait"});
  const auto apart = backward({.async = false});
  CHECK(starts_nothing(apart));
  CHECK(apart.back() == "all-reduce all-reduce tp small up, backward");
}

TEST_CASE("async: the same with sequence parallelism") {
  CHECK(backward({.sequence = true}) == Trace{"all-gather reduce-scatter tp small down, backward", "mm", "mm", "mm",
                                              "start reduce-scatter all-gather tp small up, backward", "mm", "wait",
                                              "all-gather reduce-scatter tp small table, backward"});
  CHECK(starts_nothing(backward({.async = false, .sequence = true})));
}

TEST_CASE("async: a frozen layer, and one with an adapter, have no product that a collective could overlap with") {
  for (const bool sequence : {false, true}) {
    for (const How how : {How{.frozen = true}, How{.adapter = true}, How{.frozen = true, .adapter = true}}) {
      auto with = how;
      with.sequence = sequence;
      auto without = with;
      without.async = false;
      CHECK(starts_nothing(backward(with)));
      CHECK(backward(with) == backward(without));
    }
  }
}

TEST_CASE("async: losses, gradients and weights keep their bits", "[matrix]") {
  for (const auto& family : families()) {
    for (std::size_t i = 0; i < ways().size(); ++i) {
      // Each way in both precisions and with and without adapters, over the families.
      const auto turn = i + static_cast<std::size_t>(&family - families().data());
      check_same_bits(family, ways()[i], turn % 2 == 0, turn / 2 % 2 == 0 ? "fp64" : "fp32");
    }
  }
}

TEST_CASE("async: all families, ways and precisions keep their bits", "[.][full][matrix]") {
  for (const auto& family : families()) {
    for (const auto& way : ways()) {
      for (const bool with_adapters : {false, true}) {
        for (const std::string precision : {"fp64", "fp32"}) check_same_bits(family, way, with_adapters, precision);
      }
    }
  }
}
