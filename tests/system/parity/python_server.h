#pragma once
#include <capstan/base/error.h>
#include <capstan/base/files.h>
#include <capstan/base/json.h>
#include <capstan/base/text.h>
#include <capstan_places.h>
#include <fcntl.h>
#include <spawn.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <filesystem>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "checkpoint/scratch.h"

/// serve.py in one environment, which runs scripts one after the other; it ends with this object, or with this process.
class PythonServer {
 public:
  explicit PythonServer(const std::filesystem::path& python) {
    std::array<int, 2> ends{};
    if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends.data()) != 0) throw capstan::Error("no socket pair");
    std::array<std::string, 2> words{python.string(), CAPSTAN_SOURCE_DIR "/tests/system/parity/serve.py"};
    const std::array<char*, 3> arguments{words[0].data(), words[1].data(), nullptr};
    posix_spawn_file_actions_t actions;
    ::posix_spawn_file_actions_init(&actions);
    ::posix_spawn_file_actions_adddup2(&actions, ends[1], 0);
    ::posix_spawn_file_actions_addopen(&actions, 1, log().c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0600);
    ::posix_spawn_file_actions_adddup2(&actions, 1, 2);
    const auto failure = ::posix_spawn(&process_, words[0].c_str(), &actions, nullptr, arguments.data(), environ);
    ::posix_spawn_file_actions_destroy(&actions);
    ::close(ends[1]);
    socket_ = ends[0];
    if (failure == 0) return;
    ::close(socket_);
    throw capstan::Error("cannot start " + python.string());
  }
  ~PythonServer() {
    ::close(socket_);
    ::waitpid(process_, nullptr, 0);
  }
  PythonServer(const PythonServer&) = delete;
  PythonServer& operator=(const PythonServer&) = delete;

  /// Throws Error with what the script printed when it fails, or with what the server said when that has ended.
  void run(const std::string& script, const std::vector<std::string>& arguments) {
    const auto output = (scratch_ / "output").string();
    capstan::Json job{{"script", script}, {"output", output}};
    job["arguments"] = arguments;
    send(job.dump() + "\n");
    const auto status = answer();
    if (status == "0") return;
    const auto said = capstan::read_file(status.empty() ? log() : output);
    throw capstan::Error(capstan::cat(script, " ", capstan::join(arguments, " "), " failed (", status, "):\n", said));
  }

 private:
  std::string log() const { return (scratch_ / "log").string(); }

  void send(std::string_view text) const {
    while (!text.empty()) {
      const auto sent = ::send(socket_, text.data(), text.size(), MSG_NOSIGNAL);
      if (sent <= 0) return;  // there is no answer then
      text.remove_prefix(static_cast<std::size_t>(sent));
    }
  }

  /// A line; nothing where the server has ended.
  std::string answer() const {
    std::string line;
    for (char one = 0; ::recv(socket_, &one, 1, 0) == 1; line += one) {
      if (one == '\n') return line;
    }
    return {};
  }

  Scratch scratch_;
  int socket_ = -1;
  pid_t process_ = -1;
};

/// The server of an environment, which is started for the first script that needs it.
inline PythonServer& python_server(const std::filesystem::path& python) {
  static std::map<std::filesystem::path, std::unique_ptr<PythonServer>> servers;
  auto& server = servers[python];
  if (!server) server = std::make_unique<PythonServer>(python);
  return *server;
}
