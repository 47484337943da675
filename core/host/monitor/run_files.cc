#include <capstan/monitor/run_files.h>

#include <algorithm>
#include <array>
#include <cctype>

namespace capstan::monitor {
namespace {

using std::string_view;

constexpr std::array<string_view, 21> whole_names{
    "config.toml",    "launch.json", "metrics.jsonl", "summary.json",
    "preflight.json", "slurm-job",   "running",       "take_memory_snapshot",
    "logs",           "checkpoints", "weights",       "model",
    "adapter",        "evaluations", "traces",        "memory_snapshots",
    "gpu_memory",     "cpu_memory",  "tensorboard",   "wandb",
    "mlruns"};

// Names with something in the middle: a split, a number, a host and a process.
struct Form {
  string_view begin;
  string_view end;
};
constexpr std::array forms{
    Form{"metrics-", ".jsonl"},  Form{"predictions-", ".json"}, Form{"evaluation-", ".json"},
    Form{"dump-step-", ".json"}, Form{"running.", ""},
};

// "metrics.csv.tmp4711", which stands next to a file while that is written.
bool is_temporary(string_view name) {
  const auto dot = name.rfind(".tmp");
  if (dot == string_view::npos) return false;
  const auto rest = name.substr(dot + string_view(".tmp").size());
  return rest.starts_with('-') ||
         std::all_of(rest.begin(), rest.end(), [](unsigned char c) { return std::isdigit(c) != 0; });
}

}  // namespace

bool is_name_of_run(string_view name) {
  if (std::find(whole_names.begin(), whole_names.end(), name) != whole_names.end() || is_temporary(name)) return true;
  return std::any_of(forms.begin(), forms.end(),
                     [&](const Form& form) { return name.starts_with(form.begin) && name.ends_with(form.end); });
}

}  // namespace capstan::monitor
