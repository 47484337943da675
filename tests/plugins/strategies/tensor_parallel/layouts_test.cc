// Where split parameters lie, weights that go from one layout to another, and what a split model says.
#include <ATen/core/grad_mode.h>
#include <capstan_catch.h>
#include <capstan_places.h>

#include "support/families.h"
#include "support/folder.h"
#include "support/small_run.h"

namespace layouts_test {

using namespace capstan;
using capstan::testing::families;
using capstan::testing::Family;

namespace {

using Whole = std::map<std::string, at::Tensor>;

// [model] of a family with the small data set's bytes as its words.
std::string config_of(const Family& family, const std::string& strategy) {
  return "[run]\nseed = 3\ndevice = \"cpu\"\n[model]\nplugin = \"" + family.plugin +
         "\"\nvocab_size = 261\nnum_layers = 2\nseq_length = 130\ninit_std = 0.2\n" + family.options +
         "[data]\nplugin = \"squad\"\ntrain = \"" CAPSTAN_SOURCE_DIR
         "/configs/data/mini_squad_train.json\"\ntrain_samples = 50\nmax_length = 97\n"
         "[train]\nmax_steps = 5\nglobal_batch = 8\nprecision = \"fp64\"\n[optimizer]\nlr = 1e-2\n" +
         strategy;
}

using Body = std::function<void(const job::Job&, step::Session&)>;

void on_ranks(const Family& family, int world, const std::string& strategy, const Body& body) {
  at::set_num_threads(1);
  const test::Folder folder;
  const auto file = folder.write("run.toml", config_of(family, strategy));
  comm::run_in_process(world, [&](comm::Communicator& communicator) {
    const auto job = testing::prepare_small(file, {}, world, communicator.world().rank);
    auto session = step::materialise(job, communicator);
    body(job, session);
  });
}

struct Stored {
  Whole weights;
  std::map<std::string, std::int64_t> counted;  ///< elements that ranks would write
};

Stored stored(const Family& family, int world, const std::string& strategy, layout::Source* source, int steps) {
  Stored result;
  std::mutex mutex;
  testing::TrainResult run;
  testing::Collected collected(run);
  on_ranks(family, world, strategy, [&](const job::Job& job, step::Session& session) {
    if (source) {
      const std::lock_guard lock(mutex);  // a source is for one thread
      session.engine->fill(*source);
    }
    step::Feed feed(job);
    step::Step step(session);
    for (int s = 0; s < steps; ++s) step.run(feed.draw(s), {500.0}, 1e-2);
    collected.weights(session);
    const std::lock_guard lock(mutex);
    for (const auto& box : session.engine->stored_boxes()) {
      if (box.writes_to_checkpoint) result.counted[box.record->name] += box.box.numel();
    }
  });
  result.weights = run.weights;
  return result;
}

void check_equal(const Whole& a, const Whole& b) {
  CHECK(a.size() == b.size());
  for (const auto& [name, tensor] : b) {
    INFO(name);
    CHECK(at::equal(a.at(name), tensor));
  }
}

class WholeSource : public layout::Source {
 public:
  explicit WholeSource(const Whole& whole) : whole_(whole) {}
  bool has(const layout::Param& param) const override { return whole_.count(param.name) > 0; }
  void fill(const layout::Param& param, const layout::Box& box, const at::Tensor& out) override {
    auto view = whole_.at(param.name);
    for (std::size_t d = 0; d < box.size.size(); ++d)
      view = view.narrow(static_cast<std::int64_t>(d), box.offset[d], box.size[d]);
    out.copy_(view.reshape(out.sizes()));
  }

 private:
  const Whole& whole_;
};

std::string tensor(int size, const std::string& more = "") {
  return "[strategy.tensor_parallel]\nsize = " + std::to_string(size) + "\n" + more;
}

const std::string fsdp = "[strategy.fsdp]\n";
const std::string sequence = "sequence_parallel = true\n";

// Logits of a batch of prompts and of each token that greedy decoding adds; what each rank sees, by rank.
std::vector<at::Tensor> decode(const Family& family, int world, const std::string& strategy) {
  std::vector<at::Tensor> all(static_cast<std::size_t>(world));
  on_ranks(family, world, strategy, [&](const job::Job& job, step::Session& session) {
    const at::NoGradGuard no_grad;
    const auto longs = at::TensorOptions().dtype(at::kLong);
    auto length = at::tensor({7, 4}, longs);
    nn::KVCache cache(12);
    nn::Batch batch;
    batch.tokens = (at::arange(14, longs) * 37).remainder(261).view({2, 7});
    batch.positions = at::arange(7, longs).expand({2, 7});
    batch.last = length - 1;
    batch.sample_ids = at::zeros({2}, longs);
    std::vector<at::Tensor> logits;
    for (int n = 0; n < 4; ++n) {
      logits.push_back(session.interpreter->evaluate(batch, &cache).states);
      cache.set_filled();
      length = length + 1;
      batch.tokens = logits.back().argmax(-1, true);
      batch.positions = (length - 1).view({2, 1});
      batch.last = at::zeros({2}, longs);
    }
    all[static_cast<std::size_t>(job.topology.rank)] = at::stack(logits);
  });
  return all;
}

}  // namespace

TEST_CASE("split ranks hold the slices of what one rank holds, and each element is written once") {
  for (const auto& family : families()) {
    const auto one = stored(family, 1, "", nullptr, 0);
    for (const auto& [world, strategy] : std::vector<std::pair<int, std::string>>{
             {2, tensor(2)}, {4, tensor(4, "vocab_parallel = false\n")}, {8, tensor(4, sequence) + fsdp}}) {
      INFO(family.plugin << " on " << world << "\n" << strategy);
      const auto split = stored(family, world, strategy, nullptr, 0);
      check_equal(split.weights, one.weights);
      for (const auto& [name, whole] : one.weights) {
        INFO(name);
        CHECK(split.counted.at(name) == whole.numel());
      }
    }
  }
}

TEST_CASE("weights that were trained in one layout are the same in another") {
  for (const auto& family : families()) {
    INFO(family.plugin);
    const auto trained = stored(family, 4, tensor(2, sequence) + fsdp, nullptr, 2);
    WholeSource source(trained.weights);
    check_equal(stored(family, 4, tensor(4), &source, 0).weights, trained.weights);
    check_equal(stored(family, 1, "", &source, 0).weights, trained.weights);
  }
}

// The KV cache holds a rank's own heads; all ranks must choose the same next token, bit by bit.
TEST_CASE("generation: split ranks say what one rank says, and all of them the same") {
  constexpr double tolerance = 1e-10;  // another order of sums in float64
  for (const auto& family : families()) {
    const auto one = decode(family, 1, "").front();
    for (const auto& [world, strategy] : std::vector<std::pair<int, std::string>>{
             {2, tensor(2)}, {4, tensor(4, sequence)}, {4, tensor(2, sequence + "vocab_parallel = false\n") + fsdp}}) {
      INFO(family.plugin << " on " << world << "\n" << strategy);
      for (const auto& logits : decode(family, world, strategy)) {
        CHECK(testing::distance(logits, one) <= tolerance);
        CHECK(at::equal(logits.argmax(-1), one.argmax(-1)));
      }
      const auto split = decode(family, world, strategy);
      for (int rank = 1; rank < world; ++rank) CHECK(at::equal(split[static_cast<std::size_t>(rank)], split.front()));
    }
  }
}

}  // namespace layouts_test
