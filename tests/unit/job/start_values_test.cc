// Where parameters begin: a run's weights, the model's folder, initialisation.
#include "job/start_values.h"

#include <capstan/base/json.h>
#include <capstan/objective.h>

#include "checkpoint/checkpoint.h"
#include "job/halves.h"
#include "support/errors.h"

namespace start_values_test {

using namespace capstan;
using halves::job_with;

namespace {

const std::string in_halves = "[strategy.halves]\n";

/// Zeros for all that no codec keeps, as a run saves what it trained.
void save_trained(const job::Job& job, const std::filesystem::path& to) {
  std::vector<checkpoint::TensorBox> boxes;
  for (const auto& weight : job.model->own) {
    if (weight->codec()) continue;
    for (const auto& record : weight->records()) {
      const auto whole = layout::Box::whole(record.shape);
      boxes.push_back({"model/" + record.name, record.shape, whole, at::zeros(record.shape)});
    }
  }
  comm::run_in_process(1, [&](comm::Communicator& communicator) {
    checkpoint::save(to, *communicator.group("weights", {0}, at::kCPU), {}, boxes);
  });
}

struct NoOptions {
  static void describe(config::OptionTable<NoOptions>& /*t*/) {}
};

class OfValues : public objective::Objective {
 public:
  explicit OfValues(const config::Options<NoOptions>& /*options*/) {}
  objective::Plan plan() const override {
    objective::Plan plan;
    plan.passes = {{"model", nn::HeadOutput::values}};
    plan.counts = {"samples"};
    plan.terms = {{}};
    return plan;
  }
  std::vector<double> counts(const data::HostBatch& batch) const override {
    return {static_cast<double>(batch.real_samples)};
  }
  objective::Sums sums(const std::vector<at::Tensor>& outputs, const nn::Batch& /*batch*/) const override {
    return {{outputs[0].square().sum()}, {}};
  }
};

/// A model of that folder, with an option.
job::Job with_values(const std::filesystem::path& folder, const std::string& option) {
  static plugin::Host host;
  static const bool once =
      (host.add(testing::type<objective::Objective, OfValues, NoOptions>("objective", "of_values")), true);
  CHECK(once);
  const Scratch scratch;
  setup::JobRequest request;
  request.file = scratch.write("a.toml",
                               "[run]\ndevice = \"cpu\"\n[data]\nplugin = \"synthetic\"\ntokenizer = \"byte\"\n"
                               "[train]\nmax_steps = 1\nglobal_batch = 1\nprecision = \"fp32\"\n"
                               "[objective]\nplugin = \"of_values\"\n");
  request.overrides = {"model.path=" + folder.string(), option};
  return testing::job_of(request, host);
}

at::Tensor value_of(layout::Source& source, const layout::Param& record) {
  const auto out = at::full(record.shape, -1.0, at::kFloat);
  source.fill(record, layout::Box::whole(record.shape), out);
  return out;
}

}  // namespace

TEST_CASE("parameters begin as the model's folder has them, and without one as the run's seed says") {
  const Scratch scratch;
  const auto job = job_with("");
  halves::write_folder(job, scratch / "plain", "");
  const auto of_folder = job_with("", scratch / "plain");
  const auto from_seed = job::start_values(job), from_folder = job::start_values(of_folder);
  nn::InitSource seeded(job.seed()), written(7);
  for (const auto* record : job::records_of(job.model->own)) {
    INFO(record->name);
    CHECK(at::equal(value_of(*from_seed, *record), value_of(seeded, *record)));
    CHECK(at::equal(value_of(*from_folder, *record), value_of(written, *record)));
  }
}

TEST_CASE("a run's weights win over the model's folder, which has what was not trained") {
  const Scratch scratch;
  halves::write_folder(job_with(""), scratch / "plain", "");
  auto job = job_with(in_halves, scratch / "plain");
  save_trained(job, scratch / "weights");
  job.config.request.weights = (scratch / "weights").string();
  const auto values = job::start_values(job);
  nn::InitSource written(7);
  for (const auto& weight : job.model->own) {
    for (const auto& record : weight->records()) {
      INFO(record.name);
      const auto expected = weight->codec() ? value_of(written, record) : at::zeros(record.shape);
      CHECK(at::equal(value_of(*values, record), expected));
    }
  }
}

TEST_CASE("a run's weights are refused where nothing has the frozen ones") {
  const Scratch scratch;
  auto job = job_with(in_halves);
  save_trained(job, scratch / "weights");
  job.config.request.weights = (scratch / "weights").string();
  try {
    (void)job::start_values(job);
    FAIL("random values were taken again");
  } catch (const Error& error) {
    const auto& fault = error.diagnostics().front();
    CHECK(fault.where == job.config.request.weights);
    CHECK_THAT(fault.what, Contains("it has only what was trained") && Contains("and 13 more"));
    CHECK_THAT(fault.fix, Contains("model.path"));
  }
}

TEST_CASE(
    "a head of values on a folder of words begins with initial values, which is said, and is written and read again") {
  const Scratch scratch;
  halves::write_folder(job_with(""), scratch / "words", "");
  const auto fault = [&](const std::filesystem::path& folder, const std::string& option) {
    return test::error_of([&] { (void)with_values(folder, option); });
  };
  const auto job = with_values(scratch / "words", "model.head_values=3");
  CHECK_THAT(job.plugins.model->note, Contains("has no tensor of score.weight: it begins with its initial values"));
  const auto start = job::start_values(job);
  nn::InitSource seeded(job.seed()), written(7);
  for (const auto* record : job::records_of(job.model->own)) {
    INFO(record->name);
    const bool is_new = record->name == "score.weight";
    CHECK(at::equal(value_of(*start, *record), value_of(is_new ? seeded : written, *record)));
  }
  halves::write_folder(job, scratch / "values", "");
  const auto again = with_values(scratch / "values", "model.head_values=3");
  CHECK(again.plugins.model->note.empty());
  const auto read = job::start_values(again);
  int heads = 0;
  for (const auto* record : job::records_of(again.model->own)) {
    INFO(record->name);
    heads += record->name == "score.weight" ? 1 : 0;
    CHECK(at::equal(value_of(*read, *record), value_of(written, *record)));
  }
  CHECK(heads == 1);
  const auto config = Json::parse(read_file(scratch / "values/config.json"));
  CHECK(config.at("architectures") == Json::array({"LlamaForSequenceClassification"}));
  CHECK(config.at("id2label").size() == 3);
  CHECK_FALSE(config.contains("head_values"));
  // Without the option, or with another number, the folder is of another model.
  CHECK_THAT(fault(scratch / "values", "model.head_values=2"),
             Contains("score.weight is [3, 16], the model needs [2, 16]"));
  CHECK_THAT(test::error_of([&] { (void)job_with("", scratch / "values"); }), Contains("lm_head.weight"));
}

}  // namespace start_values_test
