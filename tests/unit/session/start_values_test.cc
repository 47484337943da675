// Where parameters begin: a run's weights, the model's folder, initialisation.
#include "session/start_values.h"

#include "checkpoint/checkpoint.h"
#include "session/halves.h"

namespace start_values_test {

using namespace capstan;
using halves::job_with;

namespace {

const std::string in_halves = "[strategy.halves]\n";

/// Zeros for all that no codec keeps, as a run saves what it trained.
void save_trained(const session::Job& job, const std::filesystem::path& to) {
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
  const auto from_seed = session::start_values(job), from_folder = session::start_values(of_folder);
  nn::InitSource seeded(job.seed()), written(7);
  for (const auto* record : assembly::records_of(job.model->own)) {
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
  const auto values = session::start_values(job);
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
    (void)session::start_values(job);
    FAIL("random values were taken again");
  } catch (const Error& error) {
    const auto& fault = error.diagnostics().front();
    CHECK(fault.where == job.config.request.weights);
    CHECK_THAT(fault.what, Contains("it has only what was trained") && Contains("and 13 more"));
    CHECK_THAT(fault.fix, Contains("model.path"));
  }
}

}  // namespace start_values_test
