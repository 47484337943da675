#include "runs/run.h"

#include <capstan/base/error.h>
#include <capstan/base/files.h>
#include <capstan/base/json.h>
#include <capstan/base/paths.h>
#include <capstan/base/printable.h>
#include <capstan/base/text.h>
#include <capstan/config/toml_values.h>

#include <algorithm>
#include <fstream>
#include <variant>

namespace runs {

using namespace capstan;

namespace fs = std::filesystem;

namespace {

std::optional<double> finite(const Json& line, const char* key) {
  const auto found = line.find(key);
  if (found == line.end() || !found->is_number()) return {};  // null: it was not finite
  return found->get<double>();
}

// Runs `read`, for which a value of another type is the fault of what `where` names.
template <class Read>
void reading(const std::string& where, const Read& read) {
  try {
    read();
  } catch (const JsonError&) {
    throw Error("it holds a value of another type than a run writes there",
                "it is damaged, or another program has written it: copy it again, or leave this run out", where);
  }
}

[[noreturn]] void impossible(const char* key, const Json& value, const std::string& where) {
  constexpr std::size_t shown = 40;
  throw Error(cat("'", key, "' is ", printable(value.dump().substr(0, shown)), ", which no run writes there"),
              "it is damaged, or another program has written it: copy it again, or leave this run out", where);
}

bool is_whole(const Json& number) { return number.is_number_integer() || number.is_number_unsigned(); }

// A whole number of at least `least`; `absent` where the object does not have it.
std::int64_t whole(const Json& object, const char* key, std::int64_t absent, std::int64_t least,
                   const std::string& where) {
  constexpr double most = 9e15;  // all below are numbers of their own for JSON readers
  const auto found = object.find(key);
  if (found == object.end()) return absent;
  const auto number = found->get<double>();
  if (!is_whole(*found) || number < static_cast<double>(least) || number > most) impossible(key, *found, where);
  return found->get<std::int64_t>();
}

// Ranks and nodes; a run has no more of them than numbers of processes.
int count_of(const Json& object, const char* key, int absent, const std::string& where) {
  constexpr std::int64_t most = 1 << 24;
  const auto number = whole(object, key, absent, 1, where);
  if (number > most) impossible(key, object.at(key), where);
  return static_cast<int>(number);
}

// A time in seconds; 0 where the line does not have it.
double seconds_of(const Json& line, const char* key, const std::string& where) {
  constexpr double most = 1e10;  // three hundred years
  const auto number = finite(line, key).value_or(0);
  if (number < 0 || number > most) impossible(key, line.at(key), where);
  return number;
}

// All numbers, an inner object's as "outer.inner".
void flatten(const Json& json, const std::string& path, std::map<std::string, double>& out) {
  for (const auto& [key, value] : json.items()) {
    const auto name = path.empty() ? key : cat(path, ".", key);
    if (value.is_number()) out[name] = value.get<double>();
    if (value.is_object()) flatten(value, name, out);
  }
}

StepLine step_of(const Json& line, const std::string& where) {
  StepLine step;
  step.step = whole(line, "step", 0, 0, where);
  step.steps = whole(line, "steps", 0, 1, where);
  step.loss = finite(line, "loss");
  step.lr = finite(line, "lr").value_or(0);
  step.grad_norm = finite(line, "grad_norm");
  step.samples = whole(line, "samples", 0, 0, where);
  step.step_time_s = seconds_of(line, "step_time_s", where);
  flatten(line, "", step.values);
  return step;
}

EvaluationLine evaluation_of(const Json& line, const std::string& where) {
  EvaluationLine evaluation;
  evaluation.step = whole(line, "step", 0, 0, where);
  evaluation.epoch = finite(line, "epoch").value_or(0);
  evaluation.split = line.at("split").get<std::string>();
  evaluation.loss = finite(line, "loss");
  evaluation.samples = whole(line, "samples", 0, 0, where);
  evaluation.runtime_s = seconds_of(line, "runtime_s", where);
  flatten(line, "", evaluation.scores);
  return evaluation;
}

void add_metrics_line(const std::string& text, const std::string& where, Run& run) {
  const auto line = try_parse_json(text);
  if (!line.is_object() || !line.contains("step") || !is_whole(line.at("step"))) {
    throw Error("the line is not a JSON object with a step", "take it out: another program may have written into it",
                where);
  }
  reading(where, [&] {
    if (line.contains("split")) {
      run.evaluations.push_back(evaluation_of(line, where));
    } else if (line.contains("loss")) {
      run.steps.push_back(step_of(line, where));
    }
  });
}

Json read_json_file(const fs::path& file) {
  auto json = try_parse_json(read_file(file));
  if (!json.is_object()) throw Error("the file is not a JSON object", "it is cut off: run it again", file.string());
  return json;
}

void read_summary(const fs::path& file, Run& run) {
  if (!is_file(file)) return;
  const auto json = read_json_file(file);
  run.has_summary = true;
  flatten(json, "", run.summary);
  reading(file.string(), [&] {
    run.name = json.value("name", run.name);
    run.ranks = count_of(json, "world_size", run.ranks, file.string());
    for (const auto& peak : json.value("peak_memory_bytes", Json::array())) {
      run.device_peaks.push_back(peak.value("device", 0.0));
      run.host_peaks.push_back(peak.value("host", 0.0));
    }
  });
}

void read_launch(const fs::path& file, Run& run) {
  if (!is_file(file)) return;
  const auto json = read_json_file(file);
  reading(file.string(), [&] {
    run.ranks = count_of(json, "world_size", run.ranks, file.string());
    run.nodes = count_of(json, "nodes", run.nodes, file.string());
    for (const auto& rank : json.value("ranks", Json::array())) run.hosts.push_back(rank.value("host", std::string()));
  });
}

// Files that end so in a folder and in its folders, sorted; none where it does not exist.
std::vector<fs::path> files_ending(const fs::path& folder, const std::string& ending) {
  std::vector<fs::path> files;
  for (const auto& entry : entries_if_there(folder)) {
    if (is_folder(entry)) {
      const auto inner = files_ending(entry, ending);
      files.insert(files.end(), inner.begin(), inner.end());
    } else if (entry.extension() == ending) {
      files.push_back(entry);
    }
  }
  return files;
}

template <class Log>
const Log* of_first_host(const std::vector<Log>& logs, const std::vector<std::string>& hosts) {
  if (logs.empty()) return nullptr;
  const auto host = hosts.empty() ? std::string() : hosts.front();
  const auto found = std::find_if(logs.begin(), logs.end(), [&](const Log& log) {
    return !host.empty() && log.name.find(host) != std::string::npos;
  });
  return found == logs.end() ? &logs.front() : &*found;
}

}  // namespace

std::optional<double> Run::number(const std::string& key) const {
  if (const auto found = summary.find(key); found != summary.end()) return found->second;
  for (const auto& [path, value] : summary) {
    if (path.ends_with("." + key)) return value;
  }
  return {};
}

std::optional<double> Run::option(const std::string& key) const {
  const auto found = options.find(key);
  if (found == options.end()) return {};
  if (const auto* whole = std::get_if<std::int64_t>(&found->second)) return static_cast<double>(*whole);
  if (const auto* real = std::get_if<double>(&found->second)) return *real;
  return {};
}

std::string Run::option_text(const std::string& key) const {
  const auto found = options.find(key);
  if (found == options.end()) return {};
  if (const auto* text = std::get_if<std::string>(&found->second)) return *text;
  return config::value_text(found->second);
}

std::string Run::strategy_text(const std::string& key) const {
  for (const auto& [path, value] : options) {
    const auto parts = split(path, '.');
    if (parts.size() == 3 && parts[0] == "strategy" && parts[2] == key) return option_text(path);
  }
  return {};
}

bool Run::on_cpus() const {
  return option_text("run.device") == "cpu" || (!device_peaks.empty() && device_peaks.front() <= 0);
}

const std::vector<GpuMemorySample>* Run::gpu0() const {
  const auto* log = of_first_host(gpu_logs, hosts);
  if (!log || log->gpus.empty()) return nullptr;
  return &log->gpus.begin()->second;
}

const CpuLog* Run::cpu() const {
  const auto* log = of_first_host(cpu_logs, hosts);
  return log && !log->real_mb.empty() ? log : nullptr;
}

Run read_run_but_metrics(const fs::path& folder) {
  const auto config = folder / "config.toml";
  if (!is_folder(folder))
    throw Error("there is no such folder", "name the folder of a run, such as runs/baseline", folder.string());
  if (!is_file(config))
    throw Error("the folder holds no config.toml: it is no run's", "name the folder of a run", folder.string());
  Run run;
  run.folder = folder;
  run.name = fs::absolute(folder).lexically_normal().filename().string();
  if (run.name.empty()) run.name = fs::absolute(folder).lexically_normal().parent_path().filename().string();
  run.options = config::toml_values(config.string());
  read_launch(folder / "launch.json", run);
  read_summary(folder / "summary.json", run);
  for (const auto& file : files_ending(folder / "gpu_memory", ".csv")) run.gpu_logs.push_back(read_gpu_log(file));
  for (const auto& file : files_ending(folder / "cpu_memory", ".txt")) run.cpu_logs.push_back(read_cpu_log(file));
  return run;
}

std::uintmax_t read_more_metrics(const fs::path& file, std::uintmax_t begin, Run& run) {
  if (!is_file(file)) return 0;
  std::ifstream in(file, std::ios::binary);
  in.seekg(0, std::ios::end);
  const auto size = static_cast<std::uintmax_t>(std::max<std::streamoff>(0, in.tellg()));
  if (size < begin) {  // a resumed run has taken steps back
    begin = 0;
    run.steps.clear();
    run.evaluations.clear();
  }
  in.seekg(static_cast<std::streamoff>(begin));
  const bool whole = begin == 0;
  std::size_t number = 0;
  std::string line;
  while (std::getline(in, line) && !in.eof()) {
    ++number;
    const auto where = whole ? cat(file.string(), ":", number) : cat(file.string(), ", byte ", begin);
    if (!line.empty()) add_metrics_line(line, where, run);
    begin += line.size() + 1;
  }
  return begin;
}

Run read_run(const fs::path& folder) {
  auto run = read_run_but_metrics(folder);
  read_more_metrics(folder / "metrics.jsonl", 0, run);
  return run;
}

std::vector<Run> read_runs(const std::vector<std::string>& folders) {
  std::vector<Run> runs;
  std::map<std::string, int> names;
  for (const auto& folder : folders) {
    runs.push_back(read_run(folder));
    ++names[runs.back().name];
  }
  for (auto& run : runs) {
    if (names[run.name] > 1) run.name = cat(run.name, " (", run.folder.string(), ")");
  }
  return runs;
}

}  // namespace runs
