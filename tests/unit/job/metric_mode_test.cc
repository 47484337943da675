// Which evaluation is the best one: what metrics say of themselves, and where a person must say it.
#include <capstan/base/text.h>
#include <capstan/data.h>
#include <capstan/objective.h>
#include <capstan/testing.h>
#include <capstan_catch.h>

#include "support/folder.h"
#include "support/job.h"
#include "testing/tiny.h"

namespace metric_mode_test {

using namespace capstan;

namespace {

struct NoOptions {
  static void describe(config::OptionTable<NoOptions>& /*t*/) {}
};

// Questions whose answers have three scores.
class Asks final : public data::DataSource {
 public:
  std::int64_t size() const override { return 8; }
  data::Sample get(std::int64_t index) const override {
    return {{3, 4, 5 + index}, {false, false, true}, 2, cat("line ", index), {"5"}};
  }
  monitor::Values score(const data::Sample& /*sample*/, const std::string& /*text*/) const override {
    return {{"exact_match", 0}, {"f1", 0}, {"errors", 9}};
  }
};

class Asked final : public data::Data {
 public:
  explicit Asked(const config::Options<NoOptions>& /*options*/) {}
  void check(Diagnostics& /*diagnostics*/) const override {}
  std::shared_ptr<data::DataSource> open(const data::SplitRequest& /*request*/) const override {
    return std::make_shared<Asks>();
  }
  std::vector<std::string> evaluation_sets() const override { return {"hard"}; }
  std::int64_t max_length() const override { return 8; }
  bool uses_tokenizer() const override { return false; }
};

// The loss, and figures of each direction.
class Figures final : public objective::Objective {
 public:
  explicit Figures(const config::Options<NoOptions>& /*options*/) {}
  objective::Plan plan() const override {
    objective::Plan plan;
    plan.passes = {{"policy"}};
    plan.counts = {"target tokens"};
    plan.terms = {{}};
    plan.figures = {{"reward", 0, objective::Better::higher},
                    {"divergence", 0, objective::Better::lower},
                    {"length", 0, objective::Better::neither}};
    return plan;
  }
  std::vector<double> counts(const data::HostBatch& batch) const override {
    return {static_cast<double>(batch.target_tokens)};
  }
  objective::Sums sums(const std::vector<at::Tensor>& outputs, const nn::Batch& /*batch*/) const override {
    return {{outputs[0]}, {outputs[0], outputs[0], outputs[0]}};
  }
};

// Samples::lowest_is_best of a run that keeps its best by this metric.
bool lowest(const std::string& metric, const std::vector<std::string>& more = {}) {
  const test::Folder folder;
  plugin::Host host;
  host.add(testing::tiny_model());
  host.add(testing::type<data::Data, Asked, NoOptions>("data", "asked"));
  host.add(testing::type<objective::Objective, Figures, NoOptions>("objective", "figures"));
  setup::JobRequest request;
  request.file = folder.write("a.toml",
                              "[run]\nhost_memory = 1000\ndevice = \"cpu\"\n[model]\nplugin = \"tiny\"\n"
                              "[data]\nplugin = \"asked\"\n[objective]\nplugin = \"figures\"\n"
                              "[train]\nmax_steps = 3\nglobal_batch = 4\ngenerate_each_eval = true\n"
                              "generate_samples = -1\nmax_new_tokens = 1\n[checkpoint]\nkeep_best = true\n");
  request.overrides = more;
  request.overrides.push_back("checkpoint.metric=" + metric);
  return testing::job_of(request, host).samples.lowest_is_best;
}

}  // namespace

TEST_CASE("the best by a loss is the lowest, by a usual score the highest, by a figure what the objective says") {
  for (const char* end : {"", "_hard"}) {
    CHECK(lowest(cat("eval_loss", end)));
    CHECK(lowest(cat("eval_divergence", end)));
    CHECK_FALSE(lowest(cat("eval_reward", end)));
  }
  CHECK_FALSE(lowest("eval_exact_match"));
  CHECK_FALSE(lowest("eval_f1"));
}

TEST_CASE("where it is not known which is the best, checkpoint.mode must say it") {
  for (const char* metric : {"eval_length", "eval_length_hard", "eval_errors"}) {
    CHECK_THROWS_WITH(lowest(metric), Contains(cat("checkpoint.metric is '", metric, "', and it is not known")) &&
                                          Contains("fix: set checkpoint.mode = \"min\" or \"max\""));
    CHECK(lowest(metric, {"checkpoint.mode=min"}));
    CHECK_FALSE(lowest(metric, {"checkpoint.mode=max"}));
  }
}

TEST_CASE("a checkpoint.mode that takes the worst evaluation for the best is refused where it stands") {
  for (const char* metric : {"eval_loss", "eval_loss_hard", "eval_divergence"}) {
    CHECK_THROWS_WITH(lowest(metric, {"checkpoint.mode=max"}),
                      Contains(cat("checkpoint.mode is \"max\", but the best ", metric, " is the lowest")) &&
                          Contains("fix: remove checkpoint.mode"));
    CHECK(lowest(metric, {"checkpoint.mode=min"}));
  }
  for (const char* metric : {"eval_reward", "eval_f1"}) {
    CHECK_THROWS_WITH(lowest(metric, {"checkpoint.mode=min"}),
                      Contains(cat("checkpoint.mode is \"min\", but the best ", metric, " is the highest")));
    CHECK_FALSE(lowest(metric, {"checkpoint.mode=max"}));
  }
}

}  // namespace metric_mode_test
