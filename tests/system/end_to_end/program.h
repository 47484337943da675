#pragma once
// The program under test: the real binary, started through its public command line in folders of their own.
#include <sys/types.h>

#include <chrono>
#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "support/folder.h"
#include "support/small_config.h"

namespace end_to_end {

/// The build folder, which holds bin/capstan and the fixture plugins: $CAPSTAN_BINARY_DIR, else the one that this
/// program was built in, else (it was carried elsewhere) two folders above this program.
std::filesystem::path binary_dir();
/// The source tree, for the data set: $CAPSTAN_SOURCE_DIR, else that of the build, else the nearest folder above
/// this program that holds configs/quickstart.toml.
std::filesystem::path source_dir();
/// A fixture plugin's file: "monitor", "fails" -> …/run_fixtures/monitor/fails.so.
std::string fixture(const std::string& kind, const std::string& name);
/// A broken plugin of the host's tests.
std::string broken_plugin(const std::string& name);

/// What became of a process.
struct Outcome {
  int code = 0;            ///< exit code; -signal when a signal ended it
  bool timed_out = false;  ///< it was killed, with all that it had started
  std::string out;
  std::string err;
  std::string all() const { return out + err; }
};

using Variables = std::map<std::string, std::string>;

/// The variables that the program gets, "NAME=VALUE": these, and of this process's those that no launcher has set. It
/// has one thread a rank.
std::vector<std::string> environment(const Variables& variables);

/// A `capstan` with these arguments in a process group of its own; killed with everything it started when this
/// object goes. Standard output and error go to files.
class Program {
 public:
  Program(const std::filesystem::path& folder, const std::vector<std::string>& arguments,
          const Variables& variables = {});
  ~Program();
  Program(const Program&) = delete;
  Program& operator=(const Program&) = delete;

  pid_t pid() const { return pid_; }
  /// What it has written so far.
  std::string out() const;
  std::string err() const;
  bool running();
  /// Waits until it has written `text` to standard output; false when it ended or the limit passed first.
  bool wait_for(const std::string& text, std::chrono::seconds limit = std::chrono::seconds(120));
  void signal(int number) const;
  /// Waits for its end; kills it when that takes longer than the limit.
  Outcome wait(std::chrono::seconds limit = std::chrono::seconds(240));
  /// Processes that it started and that still run.
  std::vector<pid_t> children() const;
  /// The process of a rank among them; -1 when there is none.
  pid_t rank(int number) const;

 private:
  void kill_all() const;
  std::filesystem::path out_;
  std::filesystem::path err_;
  pid_t pid_ = -1;
  int status_ = 0;
  bool ended_ = false;
};

/// Those of these processes that still run.
std::vector<pid_t> still_running(const std::vector<pid_t>& processes);

/// A temporary folder with the files of one test.
class Workspace {
 public:
  Workspace() = default;
  ~Workspace();
  Workspace(const Workspace&) = delete;
  Workspace& operator=(const Workspace&) = delete;

  const std::filesystem::path& folder() const { return folder_.path(); }
  /// Writes a file and returns its path.
  std::string write(const std::string& name, const std::string& text) const { return folder_.write(name, text); }
  /// "FILE:LINE" of the first line that holds `text`.
  std::string where(const std::string& file, const std::string& text) const;
  /// What `capstan` does here, to its end: in copies of this process where that shows the same (copies.h).
  Outcome run(const std::vector<std::string>& arguments, const Variables& variables = {}) const;
  /// Starts `capstan` here and waits for its end: where a process's start, its linker or its launcher is what is
  /// tested.
  Outcome start(const std::vector<std::string>& arguments, const Variables& variables = {}) const;

 private:
  test::Folder folder_;
};

/// The libraries that `capstan` with these arguments opened, a line each, by the dynamic linker's own report.
std::string opened_by(const Workspace& work, const std::vector<std::string>& arguments);

/// How often `part` stands in `text`.
std::size_t count(const std::string& text, const std::string& part);

/// See test::small_config.
std::string small_config(const test::Changes& changes = {}, const std::string& more = {});

}  // namespace end_to_end
