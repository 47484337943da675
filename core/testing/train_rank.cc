#include "testing/train_rank.h"

#include <ATen/ATen.h>
#include <capstan/base/error.h>
#include <capstan/base/text.h>
#include <capstan/layout/source.h>

#include <algorithm>
#include <csignal>
#include <cstdlib>
#include <limits>
#include <system_error>
#include <utility>

#include "train/loop.h"

namespace capstan::testing {
namespace {

namespace fs = std::filesystem;

// Keeps what each step gave, and asks for the stop.
class Watch final : public monitor::Monitor {
 public:
  Watch(Collected& collected, bool keeps, std::int64_t end, step::Stop& stop)
      : collected_(collected), keeps_(keeps), end_(end), stop_(stop) {}
  monitor::Values step_ended(const monitor::StepEnded& step) override {
    if (keeps_) collected_.step(step.loss, step.grad_norm);
    if (step.step + 1 == end_ && end_ < step.steps) stop_.ask(SIGTERM);
    return {};
  }

 private:
  Collected& collected_;
  bool keeps_;
  std::int64_t end_;
  step::Stop& stop_;
};

}  // namespace

Folder::Folder() {
  auto name = (fs::temp_directory_path() / "capstan-testing-XXXXXX").string();
  if (::mkdtemp(name.data()) == nullptr) throw Error("cannot make a temporary folder", "", name);
  path_ = name;
}

Folder::~Folder() {
  std::error_code ignored;
  fs::remove_all(path_, ignored);
}

void Collected::gradients(const step::Session& session) {
  merge("gradient of ", run_.gradients, session.engine->gradient_boxes());
  const std::lock_guard lock(mutex_);
  for (const auto* unit : session.units) {
    for (const auto& weight : unit->weights()) {
      std::vector<std::string> names;
      for (const auto& record : weight->records()) names.push_back(record.name);
      for (const auto& name : names) run_.fused[name] = names;
    }
  }
}

void Collected::weights(const step::Session& session) {
  merge("weight ", run_.weights, session.engine->stored_boxes());
}

void Collected::evaluated(const step::Session& session) {
  merge("evaluated weight ", run_.evaluated, session.engine->stored_boxes());
}

// Where ranks keep states of their own, the first one's count.
void Collected::states(const step::Session& session) {
  std::map<std::string, std::vector<shard::StoredBox>> boxes;
  for (const auto& kept : session.engine->state_boxes()) {
    for (std::size_t i = 0; i < kept.states.size(); ++i) {
      const auto& spec = kept.slice->states[i].spec;
      if (kept.stored.copy > 0 || spec.block > 1 || !at::isFloatingType(kept.states[i].scalar_type())) continue;
      boxes[spec.name].push_back(kept.stored);
      boxes[spec.name].back().value = kept.states[i];
    }
  }
  for (const auto& [name, list] : boxes) merge(cat(name, " of ").c_str(), states_of(name), list);
}

std::map<std::string, at::Tensor>& Collected::states_of(const std::string& name) {
  const std::lock_guard lock(mutex_);
  return run_.states[name];
}

void Collected::step(double loss, double norm) {
  run_.losses.push_back(loss);
  run_.norms.push_back(norm);
}

void Collected::merge(const char* what, std::map<std::string, at::Tensor>& whole,
                      const std::vector<shard::StoredBox>& boxes) {
  const std::lock_guard lock(mutex_);
  for (const auto& stored : boxes) {
    const auto& name = stored.record->name;
    auto& tensor = whole[name];
    if (!tensor.defined())
      tensor = at::full(stored.record->shape, std::numeric_limits<double>::quiet_NaN(), stored.value.options());
    const auto view = layout::view_of(tensor, stored.box);
    const auto value = stored.value.view(stored.box.size);
    // If another rank has filled the same elements, both must be equal.
    const auto apart = at::where(view.isnan(), at::zeros({}, view.options()), (view - value).abs());
    const auto most = apart.numel() == 0 ? 0.0 : apart.max().item<double>();
    if (most != 0) run_.disagreements[what + name] = std::max(run_.disagreements[what + name], most);
    view.copy_(value);
  }
}

void train_rank(job::Job job, comm::Communicator& communicator, const Stretch& stretch, Collected& collected) {
  job.config.run.derive(&setup::RunOptions::save_weights, false);
  job.config.run.derive(&setup::RunOptions::verify_replicas, stretch.verify_replicas);
  job::Resume resume;
  if (!stretch.from.empty()) resume.reader = std::make_unique<checkpoint::Reader>(stretch.from);
  auto session = step::materialise(job, communicator, {}, resume.reader.get());
  step::Stop stop;
  Watch watch(collected, job.topology.rank == 0, stretch.end, stop);
  train::RunFolder folder(collected.folder(), job.topology.rank);
  train::Loop loop(session, folder, stop, {&resume});
  loop.observe(watch);
  loop.watch_gradients([&](std::int64_t step) {
    if (step == 0) collected.gradients(session);
  });
  const auto ended = loop.run();
  if (!stretch.is_last) return;
  collected.weights(session);
  collected.states(session);
  loop.as_evaluated(ended.steps, [&] { collected.evaluated(session); });
}

}  // namespace capstan::testing
