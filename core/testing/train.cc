#include <ATen/Parallel.h>
#include <capstan/base/files.h>
#include <capstan/base/text.h>
#include <capstan/comm/communicator.h>
#include <capstan/testing.h>

#include <algorithm>
#include <cmath>
#include <mutex>
#include <utility>

#include <capstan/plugin/host.h>
#include "job/resume.h"
#include "job/settle.h"
#include "plugin/loader.h"
#include "testing/tiny.h"
#include "testing/train_rank.h"

namespace capstan::testing {
namespace {

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
    write_file(folder_.path() / "tiny.toml", default_config(setting.steps));
    write_file(folder_.path() / "test.toml", "extends = \"tiny.toml\"\n" + setting.config);
    host_.add(tiny_model());
    host_.add(tiny_data());
    host_.add(descent());
    for (const auto& type : setting.types) host_.add(type);
    for (const auto& file : setting.plugins) host_.load_file(file);
  }

  job::Job job(int rank) {
    const std::lock_guard lock(mutex_);
    Diagnostics diagnostics;
    setup::JobRequest request;
    request.file = (folder_.path() / "test.toml").string();
    request.overrides = setting_.overrides;
    request.world_size = setting_.world;
    request.rank = rank;
    auto job = job::make_job(request, host_, diagnostics);
    diagnostics.throw_if_any();
    return std::move(*job);
  }

 private:
  const Setting& setting_;
  Folder folder_;
  std::mutex mutex_;
  plugin::Host host_;
};

void train_stretch(const Setting& setting, const Stretch& stretch, Collected& collected) {
  Preparation preparation(setting);
  comm::run_in_process(setting.world, [&](comm::Communicator& communicator) {
    train_rank(preparation.job(communicator.world().rank), communicator, stretch, collected);
  });
}

}  // namespace

plugin::Registration linked(const CapstanPluginDescriptor& descriptor, const std::filesystem::path& file) {
  if (file.empty()) return plugin::registration_of(descriptor, "the test program", "");
  return plugin::registration_of(descriptor, file, file.parent_path().string());
}

TrainResult train(const Setting& setting) {
  at::set_num_threads(1);
  TrainResult run;
  Collected collected(run);
  train_stretch(setting, {setting.stop_after}, collected);
  return run;
}

TrainResult train_resumed(const Setting& first, std::int64_t steps, const Setting& then) {
  at::set_num_threads(1);
  TrainResult run;
  auto saves = first;
  saves.overrides.push_back(cat("checkpoint.every_steps=", steps));
  Collected collected(run);
  train_stretch(saves, {steps, {}, /*is_last=*/false}, collected);
  const auto checkpoint = checkpoint::step_folder(job::checkpoint_folder(collected.folder()), steps);
  train_stretch(then, {then.stop_after, checkpoint}, collected);
  return run;
}

std::string without_effect(const Setting& setting, const std::vector<std::string>& options) {
  const auto before = train(setting).losses;
  const auto same = [](double a, double b) { return a == b || (std::isnan(a) && std::isnan(b)); };
  std::string text;
  for (const auto& option : options) {
    auto changed = setting;
    changed.overrides.push_back(option);
    const auto losses = train(changed).losses;
    if (std::equal(losses.begin(), losses.end(), before.begin(), before.end(), same))
      text += cat(option, " changes no loss of ", losses.size(), " steps\n");
  }
  return text;
}

}  // namespace capstan::testing
