// The models that an objective compares with: where they are found, what is refused, and what a session has of them.
#include "job/frozen_models.h"

#include <capstan/layout/footprint.h>

#include "config/to_toml.h"
#include "job/halves.h"
#include "job/sections.h"
#include "resume/door.h"
#include "step/session.h"
#include "support/errors.h"
#include "support/model_folders.h"

namespace frozen_models_test {

using namespace capstan;

namespace {

const std::string small =
    "[model]\nplugin = \"llama\"\nvocab_size = 261\nnum_layers = 1\nhidden_size = 8\nnum_heads = 2\n"
    "ff_dim = 12\nseq_length = ";

std::string distill(const std::string& teacher, const std::string& more = {}) {
  return cat("[objective]\nplugin = \"distill\"\nteacher = \"", teacher, "\"\n", more);
}

std::string folder(const std::string& name, const std::string& model) {
  static const test::Folder folders;
  const auto path = folders.path() / name;
  if (!std::filesystem::exists(path)) testing::write_model(model, 7, path);
  return path.string();
}

std::string fault(const std::string& tables, const std::filesystem::path& model = {}) {
  return test::error_of([&] { (void)halves::job_with(tables, model); });
}

struct NoOptions {
  static void describe(config::OptionTable<NoOptions>& /*t*/) {}
};

// Has values for records that it added, as adapters from a folder.
class Brings : public strategy::Strategy {
 public:
  explicit Brings(const config::Options<NoOptions>& /*options*/) {}
  std::shared_ptr<layout::Source> values(const layout::FileMap& /*files*/) override {
    return std::make_shared<nn::InitSource>(1);
  }
};

}  // namespace

TEST_CASE("an objective's model is a folder or the start, and its faults name the option") {
  CHECK_THAT(fault(distill("nowhere")), Contains("objective.teacher") && Contains("nowhere"));
  const test::Folder scratch;
  (void)scratch.write("odd/config.json", R"({"model_type": "oddity"})");
  CHECK_THAT(fault(distill((scratch / "odd").string())), Contains("no model plugin computes models of type 'oddity'"));
  const auto job = halves::job_with(distill(folder("small", small + "24\n")));
  REQUIRE(job.frozen.size() == 1);
  CHECK(job.frozen[0].plugin.name == "teacher");
  CHECK(job.frozen[0].plugin.facts.hidden_size == 8);
  CHECK_FALSE(job.frozen[0].plugin.is_start);
  const auto start = halves::job_with(distill("start"));
  CHECK(start.frozen.at(0).plugin.is_start);
  CHECK(start.frozen[0].plugin.facts.hidden_size == start.plugins.model_facts.hidden_size);
}

TEST_CASE("a model with other words, fewer positions or packed weights is refused") {
  const auto words = folder("words",
                            "[model]\nplugin = \"llama\"\nvocab_size = 262\nnum_layers = 1\nhidden_size = 8\n"
                            "num_heads = 2\nff_dim = 12\nseq_length = 24\n");
  CHECK_THAT(fault(distill(words)), Contains("vocabulary of 262") && Contains("one of 261"));
  const auto few = folder("few", small + "9\n");
  CHECK_THAT(fault(distill(few)), Contains("the model of 'teacher' has 9 positions"));
  const Scratch scratch;
  halves::write_folder(halves::job_with(""), scratch / "plain", "");
  halves::write_folder(halves::job_with("[strategy.halves]\n", scratch / "plain"), scratch / "packed", "halves");
  CHECK_THAT(fault(distill((scratch / "packed").string())), Contains("packed") && Contains("quantized"));
}

TEST_CASE("a start that is not only the model's folder or its initialisation is refused") {
  CHECK_THAT(fault(distill("start") + "[strategy.halves]\n"), Contains("as it began") && Contains("halves keeps"));
  const test::Folder scratch;
  plugin::Host host;
  host.add(testing::type<strategy::Strategy, Brings, NoOptions>("strategy", "brings"));
  setup::JobRequest request;
  request.file = scratch.write("a.toml", "[run]\ndevice = \"cpu\"\n" + small +
                                             "24\n[data]\nplugin = \"synthetic\"\ntokenizer = \"byte\"\n[train]\n"
                                             "max_steps = 1\nglobal_batch = 1\n[strategy.brings]\n" +
                                             distill("start"));
  CHECK_THROWS_WITH(testing::job_of(request, host), Contains("brings values from files of its own"));
}

TEST_CASE("folders that a run which resumes reads again are compared by what is in them") {
  const test::Folder scratch;
  const auto path = scratch.path() / "model";
  const auto write = [&](std::uint64_t seed) {
    std::filesystem::remove_all(path);
    testing::write_model(
        "[model]\nplugin = \"llama\"\nvocab_size = 261\nnum_layers = 2\nseq_length = 24\nhidden_size = 16\n"
        "num_heads = 2\nff_dim = 24\n",
        seed, path);
  };
  // What is told of a run that resumes once the folder is of another seed, or has been copied.
  const auto changed = [&](const std::string& tables, const std::filesystem::path& model, std::uint64_t seed) {
    write(7);
    const auto before = halves::job_with(tables, model);
    checkpoint::Meta meta;
    meta.config = config::to_toml(before.tables());
    meta.sections = job::change_sections(before);
    comm::run_in_process(1, [&](comm::Communicator& communicator) {
      const auto group = communicator.group("all", {0}, c10::Device(c10::DeviceType::CPU));
      checkpoint::save(scratch / "saved", *group, meta, {{"model/x", {1}, layout::Box::whole({1}), at::ones({1})}});
    });
    write(seed);
    const checkpoint::Reader reader(scratch / "saved");
    std::vector<std::string> names;
    for (const auto& change : resume::door().changes(halves::job_with(tables, model), reader)) {
      CHECK_THAT(change.refusal.text(), Contains("checkpoint.accept = [\"" + change.name + "\"]"));
      names.push_back(change.name);
    }
    return names;
  };
  using Names = std::vector<std::string>;
  CHECK(changed(distill(path.string()), {}, 7) == Names{});
  CHECK(changed(distill(path.string()), {}, 8) == Names{"objective.teacher"});
  CHECK(changed(distill("start"), path, 8) == Names{"model.path"});
  CHECK(changed("[strategy.lora]\nrank = 2\n", path, 8) == Names{"model.path"});
  CHECK(changed("[strategy.lora]\nrank = 2\n[checkpoint]\nsave = \"all\"\n", path, 8) == Names{});
  CHECK(changed("", path, 8) == Names{});  // all of it is in checkpoints
}

TEST_CASE("a session has the model's values, trains and saves none of them, and counts them in rows of their own") {
  const auto teacher = folder("small", small + "24\n");
  const auto job = halves::job_with(distill(teacher));
  comm::run_in_process(1, [&](comm::Communicator& communicator) {
    const auto session = step::materialise(job, communicator);
    REQUIRE(session.frozen.size() == 1);
    CHECK(session.frozen[0].engine->trainable_names().empty());
    CHECK(session.frozen[0].engine->state_boxes().empty());
    const auto own = job::records_of(job.model->own);
    CHECK(session.engine->stored_boxes().size() == own.size());
    nn::InitSource written(7);
    std::int64_t elements = 0;
    for (const auto& stored : session.frozen[0].engine->stored_boxes()) {
      const auto expected = at::empty(stored.record->shape, stored.value.options());
      written.fill(*stored.record, layout::Box::whole(stored.record->shape), expected);
      CHECK(at::equal(stored.value, expected.flatten()));
      elements += stored.value.numel();
    }
    const auto bytes = [](const auto& parts, const std::string& name) {
      std::int64_t sum = 0;
      for (const auto& part : parts) sum += part.part == name ? part.bytes : 0;
      return sum;
    };
    const auto predicted = bytes(job.prediction.footprints, "teacher: parameters");
    CHECK(predicted >= elements * 4);
    CHECK(bytes(session.held(), "teacher: parameters") == predicted);
    CHECK(bytes(session.held(), "parameters") == bytes(job.prediction.footprints, "parameters"));
    CHECK(bytes(job.prediction.footprints, "teacher: gradients") == 0);
  });
}

namespace {

struct DefaultOptions {
  std::string reference = "start";
  static void describe(config::OptionTable<DefaultOptions>& t) {
    t.add("reference", &DefaultOptions::reference).doc("a model's folder, or start");
  }
};

// Compares with a model that its option names by its default.
class ByDefault : public objective::Objective {
 public:
  explicit ByDefault(const config::Options<DefaultOptions>& /*options*/) {}
  objective::Plan plan() const override {
    objective::Plan plan;
    plan.models = {{"reference", "reference"}};
    plan.passes = {{.name = "policy"}, {.name = "reference", .gradient = false, .model = 0}};
    plan.counts = {"samples"};
    plan.terms = {{}};
    return plan;
  }
  std::vector<double> counts(const data::HostBatch& batch) const override {
    return {static_cast<double>(batch.real_samples)};
  }
  objective::Sums sums(const std::vector<at::Tensor>& outputs, const nn::Batch& /*batch*/) const override {
    return {{outputs[0] - outputs[1]}, {}};
  }
};

}  // namespace

TEST_CASE("an objective's model that no configuration names is what its option is by default") {
  const test::Folder scratch;
  plugin::Host host;
  host.add(testing::type<objective::Objective, ByDefault, DefaultOptions>("objective", "by_default"));
  const auto job = [&](const std::string& more) {
    setup::JobRequest request;
    request.file = scratch.write("a.toml", "[run]\ndevice = \"cpu\"\n" + small +
                                               "24\n[data]\nplugin = \"synthetic\"\ntokenizer = \"byte\"\n[train]\n"
                                               "max_steps = 1\nglobal_batch = 1\n[objective]\nplugin = "
                                               "\"by_default\"\n" +
                                               more);
    return testing::job_of(request, host);
  };
  CHECK(job("").frozen.at(0).plugin.is_start);
  CHECK_FALSE(job(cat("reference = \"", folder("small", small + "24\n"), "\"\n")).frozen.at(0).plugin.is_start);
  CHECK_THROWS_WITH(job("reference = \"\"\n"), Contains("objective.reference"));
}

}  // namespace frozen_models_test
