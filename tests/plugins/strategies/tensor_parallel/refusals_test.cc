// What cannot be split is refused in words before anything is allocated.
#include <capstan/base/log.h>
#include <capstan/testing.h>
#include <capstan_catch.h>

#include <fstream>
#include <sstream>

#include <capstan/plugin/host.h>
#include "job/job.h"
#include "support/families.h"
#include "support/folder.h"

namespace refusals_test {

using namespace capstan;
using capstan::testing::families;

namespace {

std::string error_of(const std::string& config, int world = 4) {
  try {
    testing::train({.world = world, .config = config, .steps = 1});
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

std::string model(const std::string& plugin, const std::string& options) {
  return testing::family_config({plugin, options});
}

std::string tensor(int size, const std::string& more = "") {
  return "[strategy.tensor_parallel]\nsize = " + std::to_string(size) + "\n" + more;
}

const std::string three_heads = "hidden_size = 12\nnum_heads = 3\nff_dim = 22\n";

class Rival : public strategy::Strategy {
 public:
  struct RivalOptions {
    static void describe(config::OptionTable<RivalOptions>&) {}
  };
  explicit Rival(const config::Options<RivalOptions>&) {}
  void claim(strategy::Claims& claims) const override { claims.exclusive("axis tp"); }
};

// A model that does not say how many key heads it has.
class Quiet : public nn::Model {
 public:
  struct QuietOptions {
    static void describe(config::OptionTable<QuietOptions>&) {}
  };
  explicit Quiet(const config::Options<QuietOptions>&) {}
  void check(Diagnostics&) const override {}
  nn::ModelFacts facts() const override {
    nn::ModelFacts facts;
    facts.vocab_size = 300;
    facts.max_positions = 24;
    facts.num_heads = 6;
    return facts;
  }
  std::vector<std::unique_ptr<nn::Unit>> build() const override {
    std::vector<std::unique_ptr<nn::Unit>> units;
    units.push_back(std::make_unique<Attention>());
    return units;
  }
  double flops_per_token(std::int64_t) const override { return 1; }
  layout::FileMap file_map() const override { return {}; }

 private:
  class Attention : public nn::Unit {
   public:
    Attention()
        : Unit("attention"),
          layer_(*this, kind(),
                 {{weight("qkv", {24, 12}), nullptr}, {weight("proj", {12, 12}), nullptr}, nullptr, nullptr}) {}
    nn::Hidden forward(nn::Hidden hidden, const nn::Batch&, nn::KVCache*) override { return hidden; }

   private:
    static nn::Attention::Kind kind() {
      nn::Attention::Kind kind;
      kind.spec.heads = {6, 3, 2};
      kind.rotary = nn::Rotary(2, 1e4, {});
      return kind;
    }
    nn::WeightPtr weight(const std::string& name, const layout::Shape& shape) {
      return add_record(name + ".weight", shape, layout::Init::zeros(), true);
    }
    nn::Attention layer_;
  };
};

}  // namespace

TEST_CASE("a size is needed, and must divide the world") {
  CHECK_THAT(error_of("[strategy.tensor_parallel]\n"), Contains("strategy.tensor_parallel.size"));
  CHECK_THAT(error_of(tensor(0)), Contains("size"));
  CHECK_THAT(error_of(model("gpt", three_heads) + tensor(3)), Contains("world 4 is no multiple of tp 3 ("));
}

TEST_CASE("heads that do not divide are refused with the sizes that do") {
  CHECK_THAT(
      error_of(model("gpt", three_heads) + tensor(2)),
      Contains("strategy.tensor_parallel.size is 2, but the model's 3 attention heads are not divisible by it") &&
          Contains("use one of 1, 3"));
  CHECK_THAT(error_of(model("llama", "hidden_size = 24\nnum_heads = 12\nnum_kv_heads = 3\nff_dim = 16\n") + tensor(2)),
             Contains("the model's 3 key and value heads can neither be divided by it nor each be held by as many") &&
                 Contains("use one of 1, 3, 6, 12"));
}

TEST_CASE("key heads that a model does not tell are found when it is placed") {
  std::string error;
  try {
    testing::train({.world = 2,
                    .config = "[model]\nplugin = \"quiet\"\n" + tensor(2),
                    .steps = 1,
                    .types = {testing::type<nn::Model, Quiet, Quiet::QuietOptions>("model", "quiet")}});
  } catch (const Error& caught) {
    error = caught.what();
  }
  CHECK_THAT(error, Contains("strategy.tensor_parallel.size is 2, but the model's 3 key and value heads can neither be "
                             "divided by it"));
}

TEST_CASE("sizes that leave a rank nothing are refused") {
  CHECK_THAT(error_of("[model]\nplugin = \"gpt\"\nvocab_size = 33\nnum_layers = 1\nseq_length = 24\nhidden_size = "
                      "64\nnum_heads = 32\n" +
                          tensor(32),
                      32),
             Contains("which leaves some ranks none of the vocabulary's 33 words") &&
                 Contains("use a smaller size, or set vocab_parallel = false"));
  CHECK_THAT(error_of(model("gpt", "hidden_size = 16\nnum_heads = 4\nff_dim = 5\n") + tensor(4)),
             Contains("which leaves some ranks none of the 5 in h.0.mlp.c_fc.weight [5, 16]"));
}

TEST_CASE("an option without effect is refused") {
  CHECK_THAT(error_of(model("gpt", three_heads) + tensor(1, "sequence_parallel = true\n")),
             Contains("strategy.tensor_parallel.sequence_parallel has no effect with size = 1") &&
                 Contains("leave it out, or set size to 2 or more"));
}

TEST_CASE("an option that is gone is refused with what to do, and accepted as older runs wrote it down") {
  CHECK_THAT(error_of(tensor(2, "async = true\n")),
             Contains("there is no option strategy.tensor_parallel.async any more") && Contains("leave it out"));
  CHECK_THAT(error_of(tensor(2, "async = false\n")), !Contains("async"));
}

TEST_CASE("a model whose layers don't declare what they use is refused") {
  CHECK_THAT(error_of(tensor(3), 3),
             Contains("unit head uses tokens.weight, which is split, in a layer that does not declare how it may be "
                      "split") &&
                 Contains("set strategy.tensor_parallel.vocab_parallel = false"));
}

TEST_CASE("without its vocabulary that model can be split") {
  const auto split = testing::train({.world = 3, .config = tensor(3, "vocab_parallel = false\n"), .steps = 3});
  CHECK(testing::differences(split, testing::train({.steps = 3}), 1e-10) == "");
}

TEST_CASE("the axis has one owner") {
  std::string error;
  try {
    testing::train({.world = 2,
                    .config = model("gpt", families().front().options) + tensor(2) + "[strategy.rival]\n",
                    .steps = 1,
                    .types = {testing::type<strategy::Strategy, Rival, Rival::RivalOptions>("strategy", "rival")}});
  } catch (const Error& caught) {
    error = caught.what();
  }
  CHECK_THAT(error, Contains("axis tp") && Contains("rival") && Contains("tensor_parallel"));
}

TEST_CASE("ranks of two nodes that split a layer are warned of the network") {
  const test::Folder folder;
  const auto log_file = (folder / "log").string();
  const auto config = folder.write(
      "a.toml", "[run]\ndevice = \"cpu\"\n" + model("gpt", families().front().options) +
                    "[data]\nplugin = \"synthetic\"\n[train]\nmax_steps = 1\nglobal_batch = 4\n[optimizer]\nlr = "
                    "1e-3\n" +
                    tensor(4));
  log::configure(log_file, log::Level::error, 0);
  for (const int ranks_per_node : {2, 4}) {
    plugin::Host host;
    Diagnostics diagnostics;
    setup::JobRequest request;
    request.file = config;
    request.world_size = 4;
    request.ranks_per_node = ranks_per_node;
    job::prepare(request, host, diagnostics);
    diagnostics.throw_if_any();
  }
  log::configure({}, log::Level::warning, 0);
  std::ostringstream text;
  text << std::ifstream(log_file).rdbuf();
  CHECK_THAT(text.str(), Contains("strategy.tensor_parallel.size is 4, but a node has 2 ranks: layers then wait for "
                                  "the network between nodes, several times each"));
  CHECK_THAT(text.str(), !Contains("a node has 4 ranks"));
}

}  // namespace refusals_test
