#pragma once
#include <capstan/data_parts/subprocess.h>

#include <chrono>
#include <condition_variable>
#include <filesystem>
#include <mutex>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

namespace wandb {

/// Sends an offline run while it is written: a Python with wandb's client follows its log, in a process of its own that
/// a thread of its own watches. Only finish() waits for it, and whatever becomes of it, the folder is what it would be
/// without.
class Sender {
 public:
  struct Start {
    std::string python;
    std::filesystem::path log;  ///< run-ID.wandb; `sending` beside it is a folder for the client's own files, meanwhile
    double system_interval_s = 10;
  };
  /// What is new since it was last asked for.
  struct News {
    std::string url;                    ///< where the run is; empty: not known, or told before
    std::vector<std::string> warnings;  ///< why nothing is sent now, or from now on; each is told once
  };

  explicit Sender(Start start);
  /// Kills the process if it is still there.
  ~Sender();
  Sender(const Sender&) = delete;
  Sender& operator=(const Sender&) = delete;

  /// For the training thread: returns at once.
  News news();
  /// After the end of the run was written: waits for so long at most, then kills the process. Has W&B got all?
  bool finish(std::chrono::duration<double> patience);

 private:
  void run(const std::stop_token& stop);
  void take(std::string_view output);
  void take_errors(std::string_view errors);
  void take_line(const std::string& line);
  void lose(const std::string& what);

  Start start_;
  // The thread's own until it has ended.
  std::string line_;       ///< of the program's output, not complete yet
  std::string errors_;     ///< the end of what it wrote to standard error
  bool has_lost_ = false;  ///< W&B will not get all
  std::string failure_;    ///< what the program said at its end
  std::string last_words_;
  std::vector<std::string> sent_;  ///< logs that W&B has all of: the run's own and those of earlier starts
  std::mutex mutex_;               ///< guards what follows
  std::condition_variable over_;
  News news_;
  bool has_warned_ = false;  ///< that it tries again
  bool is_over_ = false;
  std::jthread thread_;  ///< last: it uses all others
};

}  // namespace wandb
