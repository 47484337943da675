#include "planned_runs.h"

#include <capstan/base/counted.h>
#include <capstan/base/error.h>
#include <capstan/base/text.h>

#include <algorithm>
#include <cstdlib>
#include <set>

namespace sweep {

using namespace capstan;
using namespace runs;

namespace {

// What may differ between two runs of the same experiment: names, and what a restart adds.
const std::set<std::string>& incidental() {
  static const std::set<std::string> keys{"run.name", "run.dir", "run.requeue_exit_code", "checkpoint.resume"};
  return keys;
}

std::map<std::string, std::string> meaning_of_run(const Run& run) {
  std::map<std::string, std::string> options;
  for (const auto& [key, value] : run.options) {
    if (!incidental().contains(key)) options[key] = config::value_text(value);
  }
  return options;
}

long whole_option(const Run& base, const std::string& key) {
  const auto number = base.option(key);
  if (!number) throw Error(cat("the configuration has no ", key, ", which is to grow with the ranks"), "set it");
  return static_cast<long>(*number);
}

// The model grows, the batch of a rank shrinks: as much work a GPU.
std::vector<std::string> grown_layers(const Run& base, int smallest, int ranks) {
  const auto layers = whole_option(base, "model.num_layers") * ranks;
  const auto batch = whole_option(base, "train.micro_batch") * smallest;
  if (layers % smallest != 0 || batch % ranks != 0) {
    throw Error(cat("--weak layers: from ", smallest, " to ", counted(ranks, "rank"), " model.num_layers = ",
                    layers / ranks, " cannot grow and train.micro_batch = ", batch / smallest, " cannot shrink evenly"),
                cat("give the smallest run a train.micro_batch that is a multiple of ", ranks, " / ", smallest));
  }
  return {cat("model.num_layers=", layers / smallest), cat("train.micro_batch=", batch / ranks)};
}

std::vector<std::string> grown(Weak weak, const Run& base, int smallest, int ranks) {
  if (weak == Weak::layers) return grown_layers(base, smallest, ranks);
  if (weak == Weak::samples) {
    const auto samples = whole_option(base, "data.train_samples") * ranks;
    if (samples % smallest != 0) {
      throw Error(cat("--weak samples: data.train_samples = ", samples / ranks, " cannot grow evenly from ", smallest,
                      " to ", counted(ranks, "rank")),
                  cat("set data.train_samples to a multiple of ", smallest));
    }
    return {cat("data.train_samples=", samples / smallest)};
  }
  return {};
}

std::string short_key(const std::string& option) { return option.substr(option.rfind('.') + 1); }

// What a folder's name may hold.
std::string as_name(std::string text) {
  std::erase_if(text, [](char c) { return c == '"' || c == '\''; });
  std::replace_if(
      text.begin(), text.end(), [](unsigned char c) { return c == '/' || c <= ' '; }, '_');
  return text;
}

void add_axes(const std::vector<SweepAxis>& axes, std::vector<SweepRun>& runs) {
  for (const auto& axis : axes) {
    std::vector<SweepRun> more;
    for (const auto& run : runs) {
      for (const auto& value : axis.values) {
        auto& next = more.emplace_back(run);
        next.name += as_name(cat("-", short_key(axis.option), "=", value));
        next.overrides.push_back(cat(axis.option, "=", value));
      }
    }
    runs = std::move(more);
  }
}

}  // namespace

std::optional<SweepAxis> axis_of(const std::string& override_text) {
  const auto equals = override_text.find('=');
  if (equals == std::string::npos) return {};
  const auto value = override_text.substr(equals + 1);
  if (value.find(',') == std::string::npos || value.find_first_of("[\"'") != std::string::npos) return {};
  return SweepAxis{override_text.substr(0, equals), split(value, ',')};
}

std::vector<int> counts_of(const std::string& text, const std::string& flag) {
  if (text.empty()) throw Error(cat(flag, " is empty"), cat("write ", flag, " 1,2,4"));
  std::vector<int> counts;
  for (const auto& part : split(text, ',')) {
    char* end = nullptr;
    const long count = std::strtol(part.c_str(), &end, 10);
    if (part.empty() || *end != '\0' || count < 1 || count > 1 << 20)
      throw Error(cat(flag, " ", text, ": '", part, "' is no number from 1 on"), cat("write ", flag, " 1,2,4"));
    counts.push_back(static_cast<int>(count));
  }
  std::sort(counts.begin(), counts.end());
  counts.erase(std::unique(counts.begin(), counts.end()), counts.end());
  return counts;
}

std::vector<SweepRun> planned_runs(const Sweep& sweep, const Run& base) {
  CAPSTAN_ASSERT(!sweep.ranks.empty() && !sweep.nodes.empty());
  const int smallest = sweep.ranks.front() * sweep.nodes.front();
  std::vector<SweepRun> runs;
  for (const int nodes : sweep.nodes) {
    for (const int ranks : sweep.ranks) {
      SweepRun run{cat(sweep.name, "-", nodes > 1 ? cat(nodes, "x", ranks) : std::to_string(ranks)), nodes, ranks,
                   sweep.overrides};
      const auto more = grown(sweep.weak, base, smallest, run.ranks());
      run.overrides.insert(run.overrides.end(), more.begin(), more.end());
      runs.push_back(std::move(run));
    }
  }
  add_axes(sweep.axes, runs);
  return runs;
}

bool is_done(const Run& run, const Run& wanted, const SweepRun& planned) {
  if (!run.has_summary || run.ranks != planned.ranks() || run.nodes != planned.nodes) return false;
  const auto epochs = run.option("train.epochs");
  const auto most = run.option("train.max_steps");
  const auto steps = run.number("steps").value_or(0);
  const double of_epochs = epochs ? *epochs * run.number("steps_per_epoch").value_or(0) : steps;
  const double due = most ? std::min(*most, epochs ? of_epochs : *most) : of_epochs;
  return steps >= due && meaning_of_run(run) == meaning_of_run(wanted);
}

}  // namespace sweep
