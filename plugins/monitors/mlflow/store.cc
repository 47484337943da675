#include "store.h"

#include <capstan/base/error.h>
#include <capstan/base/files.h>
#include <capstan/base/paths.h>
#include <capstan/base/text.h>
#include <capstan/monitor_parts/metrics.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cmath>
#include <fstream>
#include <random>

namespace mlflow {

using namespace capstan;

namespace fs = std::filesystem;

namespace {

constexpr int running = 1, finished = 3;

std::int64_t now_ms() {
  return std::chrono::duration_cast<std::chrono::milliseconds>(std::chrono::system_clock::now().time_since_epoch())
      .count();
}

std::string variable(const monitor::RunStarted& run, const char* name) {
  return run.environment ? run.environment(name).value_or("") : "";
}

std::string random_text(std::size_t length, std::string_view letters) {
  std::random_device random;
  std::string text;
  while (text.size() < length) text += letters[random() % letters.size()];
  return text;
}

void make_folder(const fs::path& folder) {
  std::error_code error;
  fs::create_directories(folder, error);
  if (error) throw FileError(folder, "make", error.value());
}

void write_at(const fs::path& file, const std::string& text) {
  make_folder(file.parent_path());
  write_file(file, text);
}

// The value of a line "key: value" of a meta.yaml; empty: it has none.
std::string field_of(const fs::path& meta, const std::string& key) {
  if (!is_file(meta)) return {};
  for (const auto& line : split(read_file(meta), '\n')) {
    if (!line.starts_with(key + ": ")) continue;
    auto value = trim(line.substr(key.size() + 2));
    std::erase(value, '"');
    return value;
  }
  return {};
}

// "file:///a/b", "file:b" and "/a/b" are folders; a server's address is none.
std::string folder_of(const std::string& uri) {
  if (uri.starts_with("file:///")) return uri.substr(7);
  if (uri.starts_with("file:")) return uri.substr(5);
  return uri.find("://") == std::string::npos ? uri : "";
}

}  // namespace

void MlflowOptions::describe(config::OptionTable<MlflowOptions>& t) {
  t.add("folder", &MlflowOptions::folder)
      .path()
      .doc(
          "MLflow's folder of experiments; not set: MLFLOW_TRACKING_URI of the environment if it is a folder, else "
          "mlruns in the run's folder");
  t.add("interval_s", &MlflowOptions::interval_s)
      .min(0)
      .max(1e8)
      .doc("seconds for which numbers are gathered before they are written");
  t.add("experiment", &MlflowOptions::experiment).doc("empty: MLFLOW_EXPERIMENT_NAME of the environment, else capstan");
}

std::string metric_name(const std::string& name) {
  std::string text;
  for (const char c : name) {
    const bool fine = std::isalnum(static_cast<unsigned char>(c)) != 0 ||
                      std::string_view("_-. :/").find(c) != std::string_view::npos;
    if (c == '%') {
      text += "percent";
    } else {
      text += fine ? c : '_';
    }
  }
  return text;
}

Store::Store(const MlflowOptions& options, const monitor::RunStarted& run)
    : start_ms_(now_ms()), interval_s_(options.interval_s) {
  const auto folder = options.folder ? *options.folder : folder_of(variable(run, "MLFLOW_TRACKING_URI"));
  root_ = fs::absolute(folder.empty() ? fs::path(run.folder) / "mlruns" : fs::path(folder)).lexically_normal();
  const auto experiment = options.experiment.empty() ? variable(run, "MLFLOW_EXPERIMENT_NAME") : options.experiment;
  name_ = variable(run, "MLFLOW_RUN_NAME");
  if (name_.empty()) name_ = run.name;
  experiment_ = find_experiment(experiment.empty() ? "capstan" : experiment);
  const auto place = fs::absolute(run.folder).string();
  if (run.first_step == 0 || !find_run(experiment_, place)) {
    id_ = random_text(32, "0123456789abcdef");
    run_ = root_ / experiment_ / id_;
  }
  for (const char* part : {"artifacts", "metrics", "params", "tags"}) make_folder(run_ / part);
  write_meta(running, 0);
  write_at(run_ / "tags" / "mlflow.runName", name_);
  write_at(run_ / "tags" / "mlflow.source.name", "capstan");
  write_at(run_ / "tags" / "capstan.folder", place);
  for (const auto& setting : run.settings)
    write_at(run_ / "params" / metric_name(cat(setting.table, ".", setting.key)), config::value_text(setting.value));
}

// Its number; it is made where there is none.
std::string Store::find_experiment(const std::string& name) {
  std::error_code error;
  for (const auto& entry : fs::directory_iterator(root_, error)) {
    if (field_of(entry.path() / "meta.yaml", "name") == name) return entry.path().filename().string();
  }
  const auto number = "1" + random_text(17, "0123456789");
  write_at(root_ / number / "meta.yaml",
           cat("artifact_location: ", monitor::json_text((root_ / number).string()), "\ncreation_time: ", start_ms_,
               "\nexperiment_id: '", number, "'\nlast_update_time: ", start_ms_,
               "\nlifecycle_stage: active\nname: ", monitor::json_text(name), "\n"));
  return number;
}

bool Store::find_run(const std::string& experiment, const std::string& run_folder) {
  std::error_code error;
  for (const auto& entry : fs::directory_iterator(root_ / experiment, error)) {
    const auto tag = entry.path() / "tags" / "capstan.folder";
    if (!is_file(tag) || read_file(tag) != run_folder) continue;
    run_ = entry.path();
    id_ = run_.filename().string();
    const auto start = field_of(run_ / "meta.yaml", "start_time");
    if (!start.empty()) start_ms_ = std::stoll(start);
    return true;
  }
  return false;
}

void Store::write_meta(int status, std::int64_t end_ms) const {
  write_file(
      run_ / "meta.yaml",
      cat("artifact_uri: ", monitor::json_text((run_ / "artifacts").string()),
          "\nend_time: ", end_ms == 0 ? "null" : std::to_string(end_ms), "\nentry_point_name: ''\nexperiment_id: '",
          experiment_, "'\nlifecycle_stage: active\nrun_id: ", id_, "\nrun_name: ", monitor::json_text(name_),
          "\nrun_uuid: ", id_, "\nsource_name: capstan\nsource_type: 4\nsource_version: ''\nstart_time: ", start_ms_,
          "\nstatus: ", status, "\ntags: []\nuser_id: capstan\n"));
}

void Store::log(std::int64_t step, const monitor::Values& values) {
  const auto now = now_ms();
  for (const auto& [name, value] : values) {
    const auto text = std::isfinite(value) ? number_text(value)
                      : std::isnan(value)  ? "nan"
                      : value > 0          ? "inf"
                                           : "-inf";
    pending_[metric_name(name)] += cat(now, " ", text, " ", step, "\n");
  }
  if (static_cast<double>(now - flushed_ms_) >= 1000 * interval_s_) flush();
}

void Store::flush() {
  flushed_ms_ = now_ms();
  for (const auto& [name, lines] : pending_) {
    const auto file = run_ / "metrics" / name;
    make_folder(file.parent_path());
    std::ofstream out(file, std::ios::app);
    out << lines << std::flush;
    if (!out) throw FileError(file, "write", errno);
  }
  pending_.clear();
}

void Store::finish(const monitor::RunEnded& run) {
  log(run.steps, monitor::run_metrics(run));
  flush();
  for (const auto& [name, text] : run.summary.texts) write_at(run_ / "tags" / metric_name(name), text);
  write_meta(finished, now_ms());
}

}  // namespace mlflow
