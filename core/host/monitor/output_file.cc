#include <capstan/base/error.h>
#include <capstan/base/files.h>
#include <capstan/base/paths.h>
#include <capstan/base/text.h>
#include <capstan/monitor/output_file.h>
#include <capstan/monitor/run_files.h>

#include <cerrno>
#include <filesystem>
#include <fstream>

namespace capstan::monitor {
namespace {

namespace fs = std::filesystem;

// A configuration by itself makes no run.
bool is_run(const fs::path& folder) {
  return is_there(folder / "config.toml") && (is_there(folder / "metrics.jsonl") || is_there(folder / "launch.json"));
}

// Do the run's options name it, as monitor.csv.file does? Its configuration has them all, written out.
bool is_named_in(const fs::path& config, const std::string& name) {
  return is_file(config) && read_file(config).find(cat("= \"", name, "\"")) != std::string::npos;
}

// The run whose file it would be; empty: it is none's.
fs::path run_of(const fs::path& file) {
  const auto given = fs::absolute(file).lexically_normal();
  std::error_code unknown;  // what cannot be looked at cannot be written either, and that says why
  const auto folder = fs::weakly_canonical(given.parent_path(), unknown);
  for (auto at = folder / given.filename(); !unknown && at.has_relative_path(); at = at.parent_path()) {
    auto run = at.parent_path();
    const auto name = at.filename().string();
    if (is_run(run) && (is_name_of_run(name) || is_named_in(run / "config.toml", name))) return run;
  }
  return {};
}

// What this process has open, whatever that is: links of the system's.
bool is_of_process(const fs::path& file) {
  const auto path = fs::absolute(file).lexically_normal().string();
  return path == "/dev/stdout" || path == "/dev/stderr" || path.starts_with("/dev/fd/") || path.starts_with("/proc/");
}

bool is_link(const fs::path& file) {
  std::error_code unknown;
  return fs::is_symlink(fs::symlink_status(file, unknown));
}

}  // namespace

void check_output(const std::string& file) {
  if (file.empty() || is_of_process(file)) return;
  const fs::path path(file);
  if (is_link(path) && kind_of(path) != PathKind::other) {
    std::error_code unknown;
    throw Error(
        cat("it is a link to ", fs::read_symlink(path, unknown).string(), ", and nothing is written through links"),
        "name that file itself, or another one", file);
  }
  if (const auto run = run_of(path); !run.empty())
    throw Error(cat("it is a file of the run ", run.string()), "name another file", file);
}

void write_output(const std::string& file, const std::string& text) {
  check_output(file);
  if (kind_of(file) != PathKind::other && !is_of_process(file)) return write_file(file, text);
  errno = 0;
  std::ofstream out(file);
  out << text;
  out.close();
  if (!out) throw FileError(file, "write", errno == 0 ? EIO : errno);
}

}  // namespace capstan::monitor
