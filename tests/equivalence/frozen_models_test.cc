// Objectives that compare with another model x ways to share both among ranks: losses and gradients by name are one
// rank's with a sequence a row, and those of a plain reference with whole logits.
#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <ATen/core/grad_mode.h>
#include <capstan/testing.h>
#include <capstan_catch.h>
#include <torch/csrc/autograd/autograd.h>

#include <map>
#include <string>
#include <vector>

#include "step/passes.h"
#include "step/session.h"
#include "support/compositions.h"
#include "support/model_folders.h"

namespace frozen_models_test {

using namespace capstan;
using namespace capstan::testing;
using capstan::testing::train;  // capstan::train is a namespace, too

namespace {

constexpr std::int64_t steps = 3;
constexpr double tolerance = 1e-10;

// Wider and deeper than the models that learn from it, with as many words.
const std::string teacher_model =
    "[model]\nplugin = \"llama\"\nvocab_size = 261\nnum_layers = 3\nseq_length = 24\ninit_std = 0.3\nhidden_size = 24\n"
    "num_heads = 4\nnum_kv_heads = 2\nff_dim = 30\n";

std::string teacher(std::uint64_t seed = 11) {
  static const test::Folder folders;
  const auto folder = folders.path() / cat("teacher-", seed);
  if (!std::filesystem::exists(folder)) write_model(teacher_model, seed, folder);
  return folder.string();
}

struct Case {
  std::string name;
  std::string objective;  // TOML
};

std::string distill(const std::string& options, std::uint64_t seed = 11) {
  return cat("[objective]\nplugin = \"distill\"\nteacher = \"", teacher(seed), "\"\n", options);
}

std::string dpo(const std::string& reference, const std::string& options = "") {
  return cat("[data]\nsequences = 2\n[objective]\nplugin = \"dpo\"\nbeta = 0.5\nreference = \"", reference, "\"\n",
             options);
}

std::vector<Case> cases() {
  return {{"distill", distill("temperature = 1.7\nalpha = 0.6\n")},
          {"dpo, start", dpo("start")},
          {"distill, top k", distill("temperature = 0.8\ntop_k = 150\n")},
          {"dpo, folder", dpo(teacher(), "loss = \"ipo\"\n")},
          {"distill, renormalised", distill("top_k = 7\noutside = \"renormalised\"\nalpha = 1.0\n")}};
}

Setting setting(const Family& family, const Case& objective, const Composition& layout, bool packs,
                const std::string& accumulation = same_micro_steps) {
  return {.world = layout.world,
          .config = family_config(family) + objective.objective + layout.strategies,
          .overrides = {accumulation, packs ? "data.packing=true" : "data.packing=false"},
          .steps = steps};
}

const TrainResult& alone(const Family& family, const Case& objective) {
  static std::map<std::string, TrainResult> runs;
  const auto key = family.plugin + objective.name;
  if (!runs.contains(key)) runs[key] = train(setting(family, objective, compositions().front(), false));
  return runs.at(key);
}

// Each layout with an objective, packed or not; the next family begins elsewhere.
void check(const Family& family, std::size_t next) {
  const auto all = cases();
  for (const auto& layout : compositions()) {
    if (layout.needs_experts && family.plugin != "mixtral") continue;
    const auto& objective = all[next % all.size()];
    const bool packs = next % 2 == 0;
    ++next;
    INFO(family.plugin << ", " << objective.name << ", " << layout.name << (packs ? ", packed" : ""));
    CHECK(differences(train(setting(family, objective, layout, packs)), alone(family, objective), tolerance) == "");
  }
}

// A session of one rank whose units are called without their hooks: all weights are there.
class Models {
 public:
  explicit Models(const step::Session& session) : session_(session) {
    for (const auto* unit : session.units) {
      for (const auto& weight : unit->weights()) {
        if (leaves_.empty() || !contains(weight->value())) leaves_.push_back(weight->value());
      }
    }
  }
  nn::Hidden student(const nn::Batch& batch) const { return run(session_.units, batch); }
  at::Tensor student_logits(const nn::Batch& batch) const { return logits(session_.units, batch); }
  at::Tensor teacher_logits(const nn::Batch& batch) const {
    const at::NoGradGuard no_grad;
    return logits(job::pointers(session_.job->frozen.front().model->units), batch);
  }
  std::vector<at::Tensor> gradients(const at::Tensor& loss) const { return torch::autograd::grad({loss}, leaves_); }

 private:
  bool contains(const at::Tensor& leaf) const {
    return std::any_of(leaves_.begin(), leaves_.end(), [&](const auto& other) { return other.is_same(leaf); });
  }
  static nn::Hidden run(const std::vector<nn::Unit*>& units, const nn::Batch& batch) {
    nn::Hidden hidden;
    for (auto* unit : units) {
      unit->set_batch(batch);
      hidden = unit->forward(hidden, batch, nullptr);
    }
    return hidden;
  }
  static at::Tensor logits(const std::vector<nn::Unit*>& units, nn::Batch batch) {
    batch.pass.output = nn::HeadOutput::states;
    const auto states = run(units, batch).states;
    return states.mm(units.back()->all<nn::VocabularyHead>().front()->weight()->value().t());
  }

  const step::Session& session_;
  std::vector<at::Tensor> leaves_;
};

nn::Batch small_batch() {
  nn::Batch batch;
  batch.tokens = at::arange(14, at::kLong).mul(37).remainder(29).view({2, 7});
  batch.labels = batch.tokens.roll({-1}, {1}).clone();
  batch.labels.narrow(1, 0, 2).fill_(-100);
  batch.positions = at::arange(7, at::kLong).expand({2, 7});
  batch.sample_ids = at::arange(2, at::kLong);
  batch.samples.count = 2;
  return batch;
}

// Cross entropy and divergence with whole logits, sums over the rows that have a label.
struct Plain {
  at::Tensor cross_entropy;
  at::Tensor divergence;
};

Plain plain(const at::Tensor& student, const at::Tensor& teacher, const at::Tensor& labels, double temperature,
            std::int64_t k, bool tail) {
  const auto counts = labels.ne(-100);
  const auto picked = at::log_softmax(student, 1).gather(1, labels.clamp_min(0).unsqueeze(1)).squeeze(1);
  auto p = at::softmax(teacher / temperature, 1), q = at::softmax(student / temperature, 1);
  if (k > 0) {
    const auto ids = std::get<1>(p.topk(k, 1));
    const auto some_p = p.gather(1, ids), some_q = q.gather(1, ids);
    p = tail ? at::cat({some_p, 1 - some_p.sum(1, true)}, 1) : some_p / some_p.sum(1, true);
    q = tail ? at::cat({some_q, 1 - some_q.sum(1, true)}, 1) : some_q;
  }
  return {(picked * counts).sum().neg(), ((p * (p.log() - q.log())).sum(1) * counts).sum()};
}

double apart(const at::Tensor& a, const at::Tensor& b) { return ((a - b).abs().max() / b.abs().max()).item<double>(); }

job::Job job_of_text(const std::string& text) {
  const test::Folder scratch;
  setup::JobRequest request;
  request.file = scratch.write("a.toml",
                               "[run]\nseed = 3\ndevice = \"cpu\"\n[data]\nplugin = \"synthetic\"\ntokenizer "
                               "= \"byte\"\nmax_length = 20\n[train]\nmax_steps = 1\nglobal_batch = 2\n"
                               "precision = \"fp64\"\n" +
                                   text);
  return job_of(request);
}

}  // namespace

TEST_CASE("float64: attention that is kept, under objectives that run other models", "[train]") {
  for (const auto& objective : cases()) {
    INFO(objective.name);
    auto run = setting(dense(), objective, compositions().front(), false);
    run.overrides.emplace_back("model.attention_dropout=0");
    const auto expected = train(run);
    run.config += "[strategy.recompute]\nkeep_attention = true\n";
    CHECK(differences(train(run), expected, 0) == "");
    run.world = 2;
    run.config += "[strategy.fsdp]\n";
    CHECK(differences(train(run), expected, tolerance) == "");
  }
}

TEST_CASE("distillation is the plain one with whole logits: losses, figures and gradients", "[train]") {
  struct Option {
    std::string toml;
    double temperature, alpha;
    std::int64_t k;
    bool tail;
  };
  at::set_num_threads(1);
  for (const auto& option : {Option{"temperature = 2.5\nalpha = 0.7\n", 2.5, 0.7, 0, true},
                             Option{"top_k = 9\ntemperature = 0.7\n", 0.7, 0.5, 9, true},
                             Option{"top_k = 5\noutside = \"renormalised\"\nalpha = 1.0\n", 1, 1, 5, false}}) {
    INFO(option.toml);
    const auto job = job_of_text(family_config(dense()) + distill(option.toml));
    comm::run_in_process(1, [&](comm::Communicator& communicator) {
      const auto session = step::materialise(job, communicator);
      const Models models(session);
      const auto batch = small_batch();
      step::Passes passes(
          job.plugins.minimised, [&](const nn::Batch& of) { return models.student(of); }, session.frozen_runners());
      auto others = passes.run_others({batch});
      const auto own = passes.trained(batch, others);
      const auto sums = passes.sums(own, std::move(others), models.student(own).states);
      const auto& terms = passes.objective().plan().terms;
      const auto expected = plain(models.student_logits(batch), models.teacher_logits(batch), batch.labels.flatten(),
                                  option.temperature, option.k, option.tail);
      CHECK(apart(sums.figures[0], expected.cross_entropy) < 1e-12);
      CHECK(apart(sums.figures[1], expected.divergence) < 1e-12);
      const auto found = models.gradients(sums.terms[0] * terms[0].weight + sums.terms[1] * terms[1].weight);
      const auto weight = option.alpha * option.temperature * option.temperature;
      const auto wanted = models.gradients(expected.cross_entropy * (1 - option.alpha) + expected.divergence * weight);
      for (std::size_t i = 0; i < wanted.size(); ++i) CHECK(apart(found[i], wanted[i]) < 1e-9);
      const auto evaluated = passes.evaluate({batch});
      CHECK(apart(evaluated.figures[1], expected.divergence) < 1e-12);
    });
  }
}

TEST_CASE("float64: another model's forwards on every layout of a dense model", "[matrix][train]") {
  check(dense(), 0);
}

TEST_CASE("float64: another model's forwards on every layout of a mixture", "[matrix][train]") { check(mixture(), 2); }

TEST_CASE("float64: objectives with another model give the same for any accumulation, packed or not",
          "[matrix][train]") {
  const auto all = cases();
  for (std::size_t i = 0; i < 2; ++i) {
    INFO(all[i].name);
    const auto run = train(setting(dense(), all[i], compositions().front(), i == 0, "train.accumulation=8"));
    CHECK(differences(run, alone(dense(), all[i]), tolerance) == "");
  }
}

TEST_CASE("another teacher, or none, is seen in what is learnt") {
  const auto all = cases();
  for (const std::size_t i : {0, 2}) {
    const Case other{"", distill(i == 0 ? "temperature = 1.7\nalpha = 0.6\n" : "temperature = 0.8\ntop_k = 150\n", 12)};
    CHECK(differences(train(setting(dense(), other, compositions()[1], true)), alone(dense(), all[i]), 1e-6) != "");
  }
  const Case none{"", ""};
  CHECK(differences(train(setting(dense(), none, compositions().front(), false)), alone(dense(), all[0]), 1e-3) != "");
}

TEST_CASE("a teacher that ranks cannot share as they share the student is refused by its name") {
  const test::Folder folders;
  write_model(
      "[model]\nplugin = \"mixtral\"\nvocab_size = 261\nnum_layers = 1\nseq_length = 24\nhidden_size = 12\n"
      "num_heads = 3\nff_dim = 10\nnum_experts = 3\n",
      5, folders / "odd");
  const auto refused = [&](const Composition& layout, const std::string& what) {
    const Case odd{"", cat("[objective]\nplugin = \"distill\"\nteacher = \"", (folders / "odd").string(), "\"\n")};
    INFO(layout.name);
    CHECK_THROWS_WITH(train(setting(mixture(), odd, layout, false)),
                      Contains(what) && Contains("the objective's model 'teacher' was placed"));
  };
  refused({"TP 2", 2, "[strategy.tensor_parallel]\nsize = 2\n"}, "3 attention heads are not divisible");
  refused({"EP 2", 2, "[strategy.expert_parallel]\nsize = 2\n"}, "3 experts cannot be shared evenly");
}

TEST_CASE("with adapters only, the model as it began is the model without them", "[train]") {
  const std::string lora =
      "[strategy.lora]\nrank = 3\nalpha = 5\ndropout = 0.1\ntargets = [\"linear_qkv\", \"linear_proj\"]\n";
  for (const auto& layout : {compositions()[0], compositions()[2]}) {
    auto start = setting(dense(), {"", dpo("start")}, layout, false),
         base = setting(dense(), {"", dpo("base")}, layout, false);
    start.config += lora;
    base.config += lora;
    CHECK(differences(train(start), train(base), tolerance) == "");
  }
}

TEST_CASE("a run that resumes compares with what it began with, not with its checkpoint", "[train]") {
  for (const auto& objective : {cases()[1], cases()[0]}) {
    INFO(objective.name);
    const auto& layouts = compositions();
    const auto first = setting(dense(), objective, layouts[1], false),
               then = setting(dense(), objective, layouts[2], false);
    CHECK(differences(train_resumed(first, 2, then), alone(dense(), objective), tolerance) == "");
  }
}

}  // namespace frozen_models_test
