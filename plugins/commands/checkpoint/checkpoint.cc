#include <capstan/base/counted.h>
#include <capstan/base/exit_code.h>
#include <capstan/base/files.h>
#include <capstan/base/json.h>
#include <capstan/base/paths.h>
#include <capstan/base/terminal.h>
#include <capstan/base/text.h>
#include <capstan/command.h>
#include <capstan/record/checkpoints.h>

#include <algorithm>
#include <chrono>
#include <optional>

#include "answers.h"

namespace checkpoints {
namespace {

using namespace capstan;

namespace fs = std::filesystem;
using checkpoint::Checkpoint;
using checkpoint::is_checkpoint;

/// What a path leads to: checkpoints, the newest first, and the folder that holds them.
struct Place {
  fs::path folder;  ///< empty: the path is a checkpoint itself
  std::vector<fs::path> checkpoints;
};

Place place_of(const fs::path& path) {
  if (checkpoint::is_latest(path)) return {{}, {path.parent_path() / trim(read_file(path))}};
  if (is_checkpoint(path)) return {{}, {path}};
  Place place;
  place.folder = checkpoint::folder_at(path);
  place.checkpoints = checkpoint::committed(place.folder);
  if (is_checkpoint(path / "weights")) place.checkpoints.push_back(path / "weights");
  if (!place.checkpoints.empty()) return place;
  throw Error(is_there(path) ? "there is no checkpoint in it" : "no such folder",
              "name a run's folder, its checkpoints, or one of them", path.string());
}

std::string metrics_text(const std::map<std::string, double>& metrics) {
  std::vector<std::string> out;
  for (const auto& [name, value] : metrics) out.push_back(cat(name, " ", number_text(value)));
  return out.empty() ? "-" : join(out);
}

double bytes_in(const fs::path& folder) {
  double sum = 0;
  std::error_code none;
  for (const auto& entry : fs::directory_iterator(folder, none)) {
    if (entry.is_regular_file(none)) sum += static_cast<double>(entry.file_size(none));
  }
  return sum;
}

std::string layout_text(const checkpoint::Meta& meta) {
  const auto ranks = counted(meta.world_size, "rank");
  return meta.mesh.empty() ? ranks : cat(ranks, " (", meta.mesh, ")");
}

// The step of the best checkpoint by what the manifests say; nothing: none is kept as the best.
std::optional<std::int64_t> best_step(const std::vector<fs::path>& newest_first) {
  std::vector<Checkpoint> whole;
  for (const auto& path : newest_first) {
    try {
      whole.emplace_back(path);
    } catch (const Error&) {  // its own row says why
    }
  }
  const auto best = checkpoint::best_kept(whole);
  return best ? std::optional(best->step) : std::nullopt;
}

std::vector<std::string> row_of(const fs::path& path, const std::optional<std::int64_t>& best) {
  const auto name = path.filename().string();
  const auto size = bytes_text(bytes_in(path));
  try {
    const Checkpoint one(path);
    const auto& meta = one.meta();
    return {name,
            std::to_string(meta.step),
            size,
            meta.date,
            metrics_text(meta.metrics),
            best == meta.step ? "best" : "",
            layout_text(meta),
            "whole"};
  } catch (const Error& error) {
    const auto faults = error.diagnostics().size();
    const auto* file = dynamic_cast<const FileError*>(&error);
    const bool is_other = dynamic_cast<const checkpoint::OtherVersion*>(&error) != nullptr;
    return {name,
            "-",
            size,
            "-",
            "-",
            "",
            "-",
            cat(is_other || (file && !file->absent()) ? "cannot be read: " : "damaged: ",
                error.diagnostics().front().what, faults > 1 ? cat(" (and ", faults - 1, " more)") : "")};
  }
}

// What `latest` says when that is not there, and what crashes left.
void list_leftovers(const fs::path& folder, std::ostream& out) {
  std::vector<std::string> unfinished;
  for (const auto& path : entries_of(folder)) {
    const auto name = path.filename().string();
    if (name.find(".tmp-") != std::string::npos) unfinished.push_back(name);
  }
  std::sort(unfinished.begin(), unfinished.end());
  if (!unfinished.empty()) {
    out << "Being written, or left by a crash (the next save removes these): " << join(unfinished) << '\n';
  }
  const auto latest = folder / "latest";
  if (!is_file(latest)) return;
  const auto name = trim(read_file(latest));
  if (!is_there(folder / name)) out << "'latest' says " << name << ", which is not there\n";
}

int list(const Place& place, std::ostream& out) {
  std::vector<std::vector<std::string>> rows{{"checkpoint", "step", "size", "date", "metrics", "", "layout", "files"}};
  const auto best = best_step(place.checkpoints);
  for (const auto& path : place.checkpoints) rows.push_back(row_of(path, best));
  out << table_text(rows);
  if (!place.folder.empty()) list_leftovers(place.folder, out);
  return static_cast<int>(ExitCode::success);
}

/// Says how far it is, every few seconds.
class Teller {
 public:
  Teller(std::ostream& out, std::string what) : out_(out), what_(std::move(what)) {}
  void operator()(std::int64_t done, std::int64_t total) {
    const auto now = std::chrono::steady_clock::now();
    if (now - told_ < std::chrono::seconds(5)) return;
    told_ = now;
    out_ << what_ << ": " << bytes_text(static_cast<double>(done)) << " of " << bytes_text(static_cast<double>(total))
         << '\n'
         << std::flush;
  }

 private:
  std::ostream& out_;
  std::string what_;
  std::chrono::steady_clock::time_point told_ = std::chrono::steady_clock::now();
};

int verify(const Place& place, std::ostream& out, std::ostream& progress) {
  bool all_intact = true;
  for (const auto& path : place.checkpoints) {
    const auto faults =
        checkpoint::verify_share(path, checkpoint::Depth::hashes, Teller(progress, path.string())).faults;
    out << path.string() << ": " << (faults.empty() ? "intact" : counted(faults.size(), "fault")) << '\n';
    for (const auto& fault : faults.list()) out << "  " << fault.text() << '\n';
    all_intact = all_intact && faults.empty();
  }
  return static_cast<int>(all_intact ? ExitCode::success : ExitCode::failure);
}

void show_tensors(const Checkpoint& one, std::ostream& out) {
  std::vector<std::vector<std::string>> rows{{"tensor", "shape", "dtype"}};
  for (const auto& name : one.tensors()) {
    rows.push_back({name, layout::shape_text(one.shape(name)), checkpoint::dtype_name(one.dtype(name))});
  }
  out << table_text(rows);
}

// How many tensors and elements begin with each "model/", "optimizer/adamw.m/", …
std::vector<std::vector<std::string>> summary_rows(const Checkpoint& one) {
  std::map<std::string, std::pair<std::int64_t, std::int64_t>> groups;
  for (const auto& name : one.tensors()) {
    const auto first = name.find('/');
    const bool has_state = name.starts_with("optimizer/") || name.starts_with("strategy/");
    auto& group = groups[name.substr(0, has_state ? name.find('/', first + 1) : first)];
    ++group.first;
    group.second += layout::numel(one.shape(name));
  }
  std::vector<std::vector<std::string>> rows{{"part", "tensors", "elements"}};
  for (const auto& [name, group] : groups) {
    rows.push_back({name, std::to_string(group.first), thousands(group.second)});
  }
  return rows;
}

int show(const Place& place, const Arguments& arguments, std::ostream& out) {
  const Checkpoint one(place.checkpoints.front());
  const auto& meta = one.meta();
  const auto pretty = [](const std::string& json) { return Json::parse(json).dump(2); };
  if (!arguments.section.empty()) {
    out << pretty(one.section(arguments.section)) << '\n';
  } else if (arguments.config) {
    out << meta.config;
  } else if (arguments.tensors) {
    show_tensors(one, out);
  } else {
    std::vector<std::string> sections;
    for (const auto& item : meta.sections) sections.push_back(item.first);
    out << table_text({{"checkpoint", one.path().string()},
                       {"step", std::to_string(meta.step)},
                       {"date", meta.date},
                       {"written by", "capstan " + meta.version},
                       {"layout", layout_text(meta)},
                       {"metrics", metrics_text(meta.metrics)},
                       {"size", bytes_text(bytes_in(one.path()))},
                       {"sections", sections.empty() ? "-" : join(sections)}})
        << '\n'
        << table_text(summary_rows(one));
    for (const auto& [name, section] : meta.sections) out << '\n' << name << ' ' << pretty(section) << '\n';
  }
  return static_cast<int>(ExitCode::success);
}

/// capstan checkpoint ls|verify|show PATH
int run(const capstan::command::Call& call) {
  capstan::command::Arguments arguments;
  Arguments given;
  declare(arguments, given);
  if (const auto code = arguments.read(call)) return *code;
  given.action = arguments.chosen();
  capstan::terminal::PrintedStream out(capstan::terminal::print);
  capstan::terminal::PrintedStream progress(capstan::terminal::print_error);
  return answer(given, out, progress);
}

}  // namespace

int answer(const Arguments& arguments, std::ostream& out, std::ostream& progress) {
  const auto place = place_of(arguments.path);
  if (arguments.action == "ls") return list(place, out);
  if (arguments.action == "verify") return verify(place, out, progress);
  return show(place, arguments, out);
}

void declare(capstan::command::Arguments& arguments, Arguments& given) {
  const auto add = [&](const std::string& name, const std::string& help) {
    auto action = arguments.action(name, help);
    action.value("path", given.path, "a run's folder, its folder of checkpoints, or one of them").required();
    return action;
  };
  add("ls", "a table of all: step, size, date, metrics, which is the best, layout, whether their files are whole");
  add("verify", "compare every byte with its hash; exit status 1 when something is damaged");
  auto show = add("show", "what a checkpoint (of several the newest) says of itself");
  show.value("--section", given.section, "only this section, as JSON");
  show.flag("--config", given.config, "only the resolved configuration");
  show.flag("--tensors", given.tensors, "only its tensors, with shape and dtype");
}

CAPSTAN_COMMAND("checkpoint", "0.1.0", "list, verify or show checkpoints", run)

}  // namespace checkpoints
