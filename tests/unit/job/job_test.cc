// The way from a configuration to a session: one model for all stages, and all faults at once.
#include "job/job.h"

#include <capstan/strategy.h>
#include <capstan/testing.h>
#include <capstan_catch.h>

#include <atomic>

#include "step/session.h"
#include "support/folder.h"
#include "testing/tiny.h"

namespace job_test {

using namespace capstan;

namespace {

std::atomic<int> builds{0};

// The tiny model, whose builds are counted.
class Counted : public nn::Model {
 public:
  explicit Counted(std::shared_ptr<nn::Model> model) : model_(std::move(model)) {}
  void check(Diagnostics& faults) const override { model_->check(faults); }
  nn::ModelFacts facts() const override { return model_->facts(); }
  std::vector<std::unique_ptr<nn::Unit>> build() const override {
    ++builds;
    return model_->build();
  }
  double flops_per_token(std::int64_t length) const override { return model_->flops_per_token(length); }
  layout::FileMap file_map() const override { return model_->file_map(); }

 private:
  std::shared_ptr<nn::Model> model_;
};

plugin::Registration counted_model() {
  auto registration = testing::tiny_model();
  registration.name = "counted";
  registration.make = [make = registration.make](const config::Section& section, Diagnostics& faults) {
    auto model = std::static_pointer_cast<nn::Model>(make(section, faults));
    return std::static_pointer_cast<void>(std::shared_ptr<nn::Model>(std::make_shared<Counted>(std::move(model))));
  };
  return registration;
}

struct NoOptions {
  static void describe(config::OptionTable<NoOptions>&) {}
};

std::atomic<int> objects{0};
std::atomic<int> structures{0};

// Remembers, as a strategy may, what its one structure() saw.
class Remembers : public strategy::Strategy {
 public:
  explicit Remembers(config::Options<NoOptions>) { ++objects; }
  void structure(std::vector<std::unique_ptr<nn::Unit>>& units) override {
    ++structures;
    if (!units_.empty()) throw Error("structure() is called twice");
    for (const auto& unit : units) units_.push_back(unit.get());
  }
  std::shared_ptr<layout::Source> values(const layout::FileMap&) override {
    // The units of this strategy's model are still there.
    CHECK(units_.front()->name() == "embedding");
    return nullptr;
  }

 private:
  std::vector<const nn::Unit*> units_;
};

std::string config_of(const test::Folder& folder, const std::string& more) {
  return folder.write("a.toml",
                      "[model]\nplugin = \"counted\"\n[data]\nplugin = \"tiny\"\n[train]\nmax_steps = 2\n"
                      "global_batch = 4\n[run]\nhost_memory = 1000\n[strategy.remembers]\n" +
                          more);
}

plugin::Host& host() {
  static plugin::Host host;
  static const bool once = [] {
    host.add(counted_model());
    host.add(testing::tiny_data());
    host.add(testing::type<strategy::Strategy, Remembers, NoOptions>("strategy", "remembers"));
    return true;
  }();
  CHECK(once);
  return host;
}

setup::JobRequest request_of(const std::string& file) {
  setup::JobRequest request;
  request.file = file;
  return request;
}

struct Counts {
  int builds, objects, structures;
};

template <class Command>
Counts counted(const Command& command) {
  builds = objects = structures = 0;
  command();
  return {builds, objects, structures};
}

std::optional<job::Job> prepare(const setup::JobRequest& request) {
  Diagnostics faults;
  auto job = job::prepare(request, host(), faults);
  faults.throw_if_any();
  return job;
}

}  // namespace

TEST_CASE("a check builds the model once, and a run continues with the same") {
  const test::Folder folder;
  const auto request = request_of(config_of(folder, "[checkpoint]\nevery_steps = 1\n"));
  const auto check = counted([&] {
    const auto job = prepare(request);
    CHECK_THAT(job->text(), Contains("model counted: ") && Contains("memory of a rank"));
  });
  CHECK(check.builds == 1);
  CHECK(check.structures == 1);
  const auto run = counted([&] {
    const auto job = prepare(request);
    CHECK_THAT(job->model_summary(), Contains("model counted: "));
    comm::run_in_process(1, [&](comm::Communicator& communicator) {
      const auto session = step::materialise(*job, communicator);
      CHECK(session.units.front() == job->model->units.front().get());
    });
  });
  CHECK(run.builds == 1);
  CHECK(run.structures == 1);
}

TEST_CASE("a dry run of a micro-step has a model and strategies of its own") {
  const test::Folder folder;
  auto request = request_of(config_of(folder, ""));
  request.device = "cuda";
  request.activations = true;
  const auto check = counted([&] {
    const auto job = prepare(request);
    INFO(job->prediction.activations_note);
    CHECK(job->prediction.activations);
  });
  CHECK(check.builds == 2);
  CHECK(check.structures == 2);
  CHECK(check.objects == 2);
}

TEST_CASE("a stage that cannot be leaves the others their faults") {
  const test::Folder folder;
  const auto file = folder.write("a.toml",
                                 "[model]\nplugin = \"no_such_model\"\n[data]\nplugin = \"tiny\"\nno_such_option = 1\n"
                                 "[train]\nmax_steps = 2\nglobal_batch = 5\nmicro_batch = 2\naccumulation = 2\n"
                                 "[optimizer]\nbetas = [2.0]\n[strategy.no_such_strategy]\n");
  Diagnostics faults;
  CHECK_FALSE(job::prepare(request_of(file), host(), faults));
  const auto text = Error(faults.list()).what() + std::string();
  CHECK_THAT(text, Contains("optimizer.betas is [2.0]") && Contains("no_such_model") && Contains("no_such_option") &&
                       Contains("no_such_strategy") && Contains("global_batch"));
}

}  // namespace job_test
