#pragma once
#include <capstan/base/error.h>
#include <capstan/base/text.h>
#include <capstan_places.h>

#include <array>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <string>
#include <vector>

#include "checkpoint/scratch.h"
#include "parity/python_server.h"

/// An environment that `tools/setup --parity` makes, or the one that CAPSTAN_PARITY_PYTHON names.
inline std::filesystem::path parity_environment(const std::string& name) {
  if (const char* given = std::getenv("CAPSTAN_PARITY_PYTHON")) return given;
  auto python = std::filesystem::path(CAPSTAN_SOURCE_DIR) / ".deps" / name / "bin/python3";
  // ctest looks for these words to call the test skipped instead of failed.
  if (!std::filesystem::exists(python)) throw capstan::Error("no parity environment", "run tools/setup --parity");
  return python;
}

/// The Python that has torch, transformers 5 and TRL. What transformers 4 writes otherwise is tagged [transformers4]:
/// tools/test runs those cases with its environment too.
inline std::filesystem::path parity_python() { return parity_environment("venv5"); }

/// The one with transformers 4, the release of `tokenizers` that random texts are compared with, and the readers of
/// what monitors write.
inline std::filesystem::path parity_python_4() { return parity_environment("venv"); }

/// Runs a program; throws Error with its output when it fails.
inline void run_program(const std::filesystem::path& program, const std::vector<std::string>& arguments) {
  auto command = capstan::cat("'", program.string(), "'");
  for (const auto& argument : arguments) command += " '" + argument + "'";
  command += " 2>&1";
  FILE* pipe = ::popen(command.c_str(), "r");
  if (!pipe) throw capstan::Error("cannot start " + command);
  std::string output;
  std::array<char, 4096> chunk{};
  while (const auto size = std::fread(chunk.data(), 1, chunk.size(), pipe)) output.append(chunk.data(), size);
  if (::pclose(pipe) != 0) throw capstan::Error(command + " failed:\n" + output);
}

/// Runs tests/system/parity/<script>; throws Error with its output when it fails.
inline void run_python(const std::string& script, const std::vector<std::string>& arguments,
                       const std::filesystem::path& python = parity_python()) {
  python_server(python).run(capstan::cat(CAPSTAN_SOURCE_DIR, "/tests/system/parity/", script), arguments);
}

/// A folder that a script fills, whose last argument it is; gone with this object.
class MadeFolder {
 public:
  MadeFolder(const std::string& script, std::vector<std::string> arguments) {
    arguments.push_back(scratch_.path().string());
    run_python(script, arguments);
  }
  const std::filesystem::path& path() const { return scratch_.path(); }

 private:
  Scratch scratch_;
};
