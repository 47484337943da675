#include "offline_run.h"

#include <capstan/base/files.h>
#include <capstan/base/paths.h>
#include <capstan/base/text.h>
#include <capstan/monitor_parts/metrics.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <ctime>
#include <random>

namespace wandb {

using namespace capstan;

namespace fs = std::filesystem;

namespace {

double now_s() { return std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count(); }

std::string first_of(const std::vector<std::string>& texts) {
  const auto found = std::find_if(texts.begin(), texts.end(), [](const auto& text) { return !text.empty(); });
  return found == texts.end() ? "" : *found;
}

std::string new_id() {
  constexpr std::string_view letters = "abcdefghijklmnopqrstuvwxyz0123456789";
  std::random_device random;
  std::string id;
  for (int i = 0; i < 8; ++i) id += letters[random() % letters.size()];
  return id;
}

// Where a run keeps its id, also if others share the folder that its own is in.
fs::path id_file(const monitor::RunStarted& run) { return fs::path(run.folder) / "wandb" / "id"; }

// A run that resumes is the same one. Empty: it was not there before.
std::string earlier_id(const monitor::RunStarted& run) {
  const auto file = id_file(run);
  if (is_there(file)) return trim(read_file(file));
  std::string newest;  // earlier versions left it in the folder's name only
  std::error_code error;
  for (const auto& entry : fs::directory_iterator(file.parent_path(), error)) {
    const auto name = entry.path().filename().string();
    if (name.starts_with("offline-run-")) newest = std::max(newest, name);
  }
  return newest.substr(newest.rfind('-') + 1);
}

void keep_id(const monitor::RunStarted& run, const std::string& id) {
  const auto file = id_file(run);
  std::error_code error;
  fs::create_directories(file.parent_path(), error);
  if (error) throw FileError(file.parent_path(), "make", error.value());
  write_file(file, id + "\n");
}

std::string time_text(double seconds) {
  const auto time = static_cast<std::time_t>(seconds);
  std::tm local{};
  localtime_r(&time, &local);
  std::array<char, 32> text{};
  std::strftime(text.data(), text.size(), "%Y%m%d_%H%M%S", &local);
  return text.data();
}

Items config_of(const monitor::RunStarted& run) {
  Items items;
  for (const auto& setting : run.settings)
    items.emplace_back(cat(setting.table, ".", setting.key), monitor::json_value(setting.value));
  items.emplace_back("world_size", std::to_string(run.world_size));
  items.emplace_back("global_batch", std::to_string(run.global_batch));
  items.emplace_back("parameters", std::to_string(run.parameters));
  items.emplace_back("trainable_parameters", std::to_string(run.trainable_parameters));
  return items;
}

}  // namespace

OfflineRun::OfflineRun(const WandbOptions& options, const monitor::RunStarted& run, SystemMetrics system)
    : resumes_(run.first_step > 0), system_(std::move(system)), interval_s_(options.system_interval_s) {
  const fs::path root =
      fs::path(first_of({options.folder.value_or(""), variable(run.environment, "WANDB_DIR"), run.folder})) / "wandb";
  RunFacts facts;
  if (resumes_) facts.id = earlier_id(run);
  if (facts.id.empty()) facts.id = new_id();
  facts.name = first_of({options.name, variable(run.environment, "WANDB_NAME"), run.name});
  facts.project = first_of({options.project, variable(run.environment, "WANDB_PROJECT"), "capstan"});
  facts.entity = variable(run.environment, "WANDB_ENTITY");
  facts.group = variable(run.environment, "WANDB_RUN_GROUP");
  facts.host = run.hosts.empty() ? "" : run.hosts.front();
  facts.config = config_of(run);
  facts.start_s = now_s();
  facts.first_record = 2 * run.first_step;  // rows of earlier starts: steps, and at most as many evaluations
  folder_ = root / cat("offline-run-", time_text(facts.start_s), "-", facts.id);
  std::error_code error;
  fs::create_directories(folder_ / "files", error);
  if (error) throw FileError(folder_, "make", error.value());
  keep_id(run, facts.id);
  file_ = folder_ / cat("run-", facts.id, ".wandb");
  log_ = std::make_unique<RunLog>(file_, facts);
  std::string config;  // YAML: JSON is some of it
  for (const auto& [key, json] : facts.config) config += cat(key, ":\n  value: ", json, "\n");
  write_file(folder_ / "files" / "config.yaml", config);
}

void OfflineRun::log(const monitor::Values& values) {
  const double now = now_s();
  log_->history(now, values);
  for (const auto& value : values) {
    const auto found =
        std::find_if(last_.begin(), last_.end(), [&](const auto& other) { return other.first == value.first; });
    if (found == last_.end()) {
      last_.push_back(value);
    } else {
      found->second = value.second;
    }
  }
  if (!system_ || now - last_stats_s_ < interval_s_) return;
  last_stats_s_ = now;
  log_->stats(now, system_());
}

std::string OfflineRun::finish(const monitor::RunEnded& run) {
  log(monitor::run_metrics(run));
  Items items;
  for (const auto& [name, number] : last_) items.emplace_back(name, monitor::json_number(number));
  for (const auto& [name, text] : run.summary.texts) items.emplace_back(name, monitor::json_text(text));
  log_->summary(items);
  log_->ended(now_s(), 0);
  std::string json;
  for (const auto& [key, value] : items) json += cat(json.empty() ? "{" : ", ", monitor::json_text(key), ": ", value);
  write_file(folder_ / "files" / "wandb-summary.json", json + "}\n");
  return sync_line();
}

std::string OfflineRun::fail() {
  log_->ended(now_s(), 1);
  return sync_line();
}

std::string OfflineRun::sync_line() const {
  return cat(resumes_ ? "(before wandb 0.30 with --append) " : "", "wandb sync '", fs::absolute(folder_).string(), "'");
}

}  // namespace wandb
