#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <capstan/base/files.h>
#include <capstan/base/text.h>
#include <capstan/comm/communicator.h>
#include <capstan/testing.h>
#include <unistd.h>

#include <cmath>
#include <cstdlib>
#include <limits>
#include <mutex>

#include <capstan/plugin/host.h>
#include "inference/evaluate.h"
#include "inference/feed.h"
#include "plugin/loader.h"
#include "session/session.h"
#include "testing/tiny.h"
#include "train/checkpoint_manager.h"
#include "train/of_job.h"
#include "train/schedule.h"
#include "train/step.h"

namespace capstan::testing {
namespace {

namespace fs = std::filesystem;

// A folder that is removed with the object.
class Folder {
 public:
  Folder() {
    auto name = (fs::temp_directory_path() / "capstan-testing-XXXXXX").string();
    if (::mkdtemp(name.data()) == nullptr) throw Error("cannot make a temporary folder", "", name);
    path_ = name;
  }
  ~Folder() {
    std::error_code ignored;
    fs::remove_all(path_, ignored);
  }
  Folder(const Folder&) = delete;
  Folder& operator=(const Folder&) = delete;
  fs::path operator/(const char* name) const { return path_ / name; }

 private:
  fs::path path_;
};

std::string default_config(std::int64_t steps) {
  return cat(
      "[run]\nseed = 3\ndevice = \"cpu\"\n"
      "[model]\nplugin = \"tiny\"\n"
      "[data]\nplugin = \"tiny\"\n"
      "[train]\nglobal_batch = 24\naccumulation = 1\nprecision = \"fp64\"\nmax_steps = ",
      steps,
      "\n"
      "[optimizer]\nlr = 1e-2\nwarmup_steps = 3\nschedule = \"cosine\"\nclip = 1.0\n");
}

// The plugins and the configuration of one setting; ranks prepare their jobs one by one, since the host is shared.
class Preparation {
 public:
  explicit Preparation(const Setting& setting) : setting_(setting) {
    write_file(folder_ / "tiny.toml", default_config(setting.steps));
    write_file(folder_ / "test.toml", "extends = \"tiny.toml\"\n" + setting.config);
    host_.add(tiny_model());
    host_.add(tiny_data());
    host_.add(descent());
    for (const auto& type : setting.types) host_.add(type);
    for (const auto& file : setting.plugins) host_.load_file(file);
  }

  session::Job job(int rank) {
    const std::lock_guard lock(mutex_);
    Diagnostics diagnostics;
    setup::JobRequest request;
    request.file = (folder_ / "test.toml").string();
    request.overrides = setting_.overrides;
    request.world_size = setting_.world;
    request.rank = rank;
    auto job = session::prepare(request, host_, diagnostics);
    diagnostics.throw_if_any();
    return std::move(*job);
  }

 private:
  const Setting& setting_;
  Folder folder_;
  std::mutex mutex_;
  plugin::Host host_;
};

// Results that the ranks assemble together.
class Result {
 public:
  explicit Result(Run& run) : run_(run) {}

  void gradients(const std::vector<shard::StoredBox>& boxes) { merge("gradient of ", run_.gradients, boxes); }
  void weights(const std::vector<shard::StoredBox>& boxes) { merge("weight ", run_.weights, boxes); }

  void evaluated(const std::vector<shard::StoredBox>& boxes) { merge("evaluated weight ", run_.evaluated, boxes); }

  void fused(const std::vector<nn::Unit*>& units) {
    const std::lock_guard lock(mutex_);
    for (const auto* unit : units) {
      for (const auto& weight : unit->weights()) {
        std::vector<std::string> names;
        for (const auto& record : weight->records()) names.push_back(record.name);
        for (const auto& name : names) run_.fused[name] = names;
      }
    }
  }

 private:
  void merge(const char* what, std::map<std::string, at::Tensor>& whole, const std::vector<shard::StoredBox>& boxes) {
    const std::lock_guard lock(mutex_);
    for (const auto& stored : boxes) {
      const auto& name = stored.record->name;
      auto& tensor = whole[name];
      if (!tensor.defined())
        tensor = at::full(stored.record->shape, std::numeric_limits<double>::quiet_NaN(), stored.value.options());
      auto view = tensor;
      for (std::size_t d = 0; d < stored.box.size.size(); ++d) {
        view = view.narrow(static_cast<std::int64_t>(d), stored.box.offset[d], stored.box.size[d]);
      }
      const auto value = stored.value.view(stored.box.size);
      // If another rank has filled the same elements, both must be equal.
      const auto apart = at::where(view.isnan(), at::zeros({}, view.options()), (view - value).abs());
      const auto most = apart.numel() == 0 ? 0.0 : apart.max().item<double>();
      if (most != 0) run_.disagreements[what + name] = std::max(run_.disagreements[what + name], most);
      view.copy_(value);
    }
  }

  Run& run_;
  std::mutex mutex_;
};

// The target tokens of all samples; ranks that see the same samples count once.
std::int64_t sum_targets(const session::Job& job, const session::Session& session, const inference::StepInput& input) {
  const auto mine = job.topology.speaks_for_coordinate() ? input.target_tokens : 0;
  auto count = at::tensor(std::vector<std::int64_t>{mine}, at::kLong);
  session.world_host->all_reduce(count, comm::ReduceOp::sum, "count target tokens");
  return count.item<std::int64_t>();
}

void first_gradients(const session::Job& job, comm::Communicator& communicator, Result& result) {
  auto session = session::materialise(job, communicator);
  auto feed = train::feed_of(job);
  auto step = train::step_of(job, session);
  const auto input = feed.draw(0);
  step.gradients(input, sum_targets(job, session, input));
  result.gradients(session.engine->gradient_boxes());
  result.fused(session.units);
}

// Some of a run's steps, which may begin from a checkpoint and end with one.
struct Stretch {
  std::int64_t begin = 0;
  std::int64_t end = -1;  // -1: all that are left
  fs::path from;          // empty: no checkpoint
  fs::path to;
};

void save(const train::SavedRun& run, comm::Group& world, const train::Updates& updates, const Stretch& stretch) {
  auto meta = train::meta_of(run, stretch.end);
  meta.sections = train::sections_of(run, updates, {}, stretch.end);
  checkpoint::save(stretch.to, world, meta, run.boxes());
}

void train_rank(const session::Job& job, comm::Communicator& communicator, const Stretch& stretch, Run& run,
                Result& result) {
  std::unique_ptr<checkpoint::Reader> reader;
  if (!stretch.from.empty()) reader = std::make_unique<checkpoint::Reader>(stretch.from);
  auto session = session::materialise(job, communicator, {}, reader.get());
  auto feed = train::feed_of(job);
  auto step = train::step_of(job, session);
  const auto saved = train::saved_run(job, session);
  if (reader) train::resume_from(*reader, saved, step.updates());
  step.hooks().begin(stretch.begin);
  const auto end = stretch.end < 0 ? job.samples.plan.steps : stretch.end;
  for (std::int64_t s = stretch.begin; s < end; ++s) {
    const auto input = feed.draw(s);
    const auto targets = sum_targets(job, session, input);
    const auto lr = train::learning_rate(*job.config.optimizer, s, job.samples.plan.steps);
    const auto metrics = step.run(input, targets, lr).numbers.read();
    const auto loss = metrics.loss_sum / static_cast<double>(std::max<std::int64_t>(1, targets));
    if (!metrics.skipped) step.hooks().loss_known(s, loss);
    if (job.topology.rank != 0) continue;  // they are the same on all ranks
    run.norms.push_back(metrics.grad_norm);
    run.losses.push_back(loss);
  }
  if (!stretch.to.empty()) {
    step.hooks().before_save(end);
    save(saved, *session.world_host, step.updates(), stretch);
  } else {
    result.weights(session.engine->stored_boxes());
    step.during_evaluation(end, [&] { result.evaluated(session.engine->stored_boxes()); });
  }
}

void train_stretch(const Setting& setting, const Stretch& stretch, Run& run, Result& result) {
  Preparation preparation(setting);
  comm::run_in_process(setting.world, [&](comm::Communicator& communicator) {
    train_rank(preparation.job(communicator.world().rank), communicator, stretch, run, result);
  });
}

void train_gradients(const Setting& setting, Result& result) {
  Preparation preparation(setting);
  comm::run_in_process(setting.world, [&](comm::Communicator& communicator) {
    first_gradients(preparation.job(communicator.world().rank), communicator, result);
  });
}

}  // namespace

plugin::Registration linked(const CapstanPluginDescriptor& descriptor) {
  return plugin::registration_of(descriptor, "the test program");
}

Run train(const Setting& setting) {
  at::set_num_threads(1);
  Run run;
  Result result(run);
  train_gradients(setting, result);
  train_stretch(setting, {0, setting.stop_after, {}, {}}, run, result);
  return run;
}

Run train_resumed(const Setting& first, std::int64_t steps, const Setting& then) {
  at::set_num_threads(1);
  const Folder folder;
  Run run;
  Result result(run);
  train_gradients(first, result);
  train_stretch(first, {0, steps, {}, folder / "checkpoint"}, run, result);
  train_stretch(then, {steps, then.stop_after, folder / "checkpoint", {}}, run, result);
  return run;
}

}  // namespace capstan::testing
