#include <capstan/base/error.h>
#include <capstan/base/exit_code.h>
#include <capstan/base/files.h>
#include <capstan/base/paths.h>
#include <capstan/base/terminal.h>
#include <capstan/base/text.h>
#include <capstan/command.h>

#include <algorithm>
#include <filesystem>

#include "runs/memory_use.h"

namespace memory {
namespace {

using namespace capstan;
namespace fs = std::filesystem;

struct MemoryChoice {
  std::vector<std::string> paths;
  bool gpu_only = false;
  bool cpu_only = false;
};

// A run's logs, one of each kind a host, or the file itself.
std::vector<fs::path> memory_logs(const std::string& path) {
  if (is_file(path)) return {path};
  if (!is_folder(path)) throw Error("there is no such run or log", "name a run's folder or a log of its memory", path);
  std::vector<fs::path> found;
  for (const char* kind : {"gpu_memory", "cpu_memory"}) {
    const auto folder = fs::path(path) / kind;
    if (!is_folder(folder)) continue;
    const auto first = found.size();
    for (const auto& entry : fs::directory_iterator(folder)) found.push_back(entry.path());
    std::sort(found.begin() + static_cast<std::ptrdiff_t>(first), found.end());
  }
  if (found.empty())
    throw Error("this run has no log of its memory", "add [monitor.memory_log] to its configuration", path);
  return found;
}

// One log's block; empty if it is not of a kind that is asked for. `named`: there are others of its kind.
std::string memory_block(const fs::path& file, const MemoryChoice& choice, bool named) {
  const auto text = read_file(file);
  const bool cpu = runs::is_cpu_memory_log(text);
  if (cpu ? choice.gpu_only : choice.cpu_only) return {};
  auto block = cat(cpu ? "CPU" : "GPU", " Memory Usage", named ? cat(" (", file.string(), ")") : "", "\n");
  if (cpu) {
    const auto samples = runs::read_cpu_memory_log(text, file.string()).real_mb;
    return block + (samples.empty() ? "   no sample" : runs::cpu_memory_lines(runs::memory_use(samples))) + "\n";
  }
  const auto samples = runs::read_gpu_memory_log(text, file.string());
  if (samples.empty() && text.find("memory.used") == std::string::npos) {
    throw Error("it holds no sample of memory, and no line that says which columns it has",
                "give a run's folder, or a log of nvidia-smi or psrecord", file.string());
  }
  for (const auto& [gpu, of_gpu] : samples) block += runs::gpu_memory_line(gpu, runs::memory_use(of_gpu)) + "\n";
  return samples.empty() ? block + "   no sample\n" : block;
}

int print_memory(const MemoryChoice& choice) {
  std::vector<fs::path> files;
  for (const auto& path : choice.paths) {
    const auto logs = memory_logs(path);
    files.insert(files.end(), logs.begin(), logs.end());
  }
  std::string all;
  for (const auto& file : files) {
    const auto block = memory_block(file, choice, files.size() > 2);
    all += (all.empty() || block.empty() ? "" : "\n") + block;
  }
  if (all.empty()) {
    throw Error(cat("there is no log of ", choice.gpu_only ? "GPU" : "host", " memory here, only of the other kind"),
                cat("take ", choice.gpu_only ? "--gpu-only" : "--cpu-only",
                    " away; [monitor.memory_log] writes one of GPUs where a run uses some"),
                join(choice.paths));
  }
  terminal::print(all);
  return static_cast<int>(ExitCode::success);
}

/// capstan memory RUN|FILE…
int run(const command::Call& call) {
  command::Arguments arguments;
  MemoryChoice choice;
  arguments.values("logs", choice.paths, "folders of runs, or logs").required();
  const auto gpu = arguments.flag("--gpu-only", choice.gpu_only, "only GPUs' memory");
  arguments.flag("--cpu-only", choice.cpu_only, "only host memory").not_with(gpu);
  if (const auto code = arguments.read(call)) return *code;
  return print_memory(choice);
}

}  // namespace

CAPSTAN_COMMAND("memory", "0.1.0", "peak, average and mode of a run's memory, or of logs of nvidia-smi and psrecord",
                run)

}  // namespace memory
