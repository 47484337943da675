#pragma once
#include <capstan/monitor/monitor.h>

#include <cstdint>
#include <filesystem>
#include <fstream>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace wandb {

/// Keys with values as JSON.
using Items = std::vector<std::pair<std::string, std::string>>;

/// What an offline run says of itself first.
struct RunFacts {
  std::string id;
  std::string name;
  std::string project;
  std::string entity;  ///< empty: the account's own
  std::string group;   ///< empty: none
  std::string host;
  Items config;
  double start_s = 0;             ///< seconds since 1970
  std::int64_t first_record = 0;  ///< number of the first history record; above 0: the run resumes
};

/// The transaction log of an offline run (run-ID.wandb): protobuf records of wandb_internal.proto in the framing of
/// LevelDB's log, 32 KiB blocks, with IEEE CRC-32. What is written is in the file as soon as the call returns. Throws
/// FileError when it cannot be written.
class RunLog {
 public:
  /// The file must not exist.
  RunLog(std::filesystem::path file, const RunFacts& facts);
  /// A row of the history, at this time.
  void history(double now_s, const capstan::monitor::Values& values);
  /// System metrics.
  void stats(double now_s, const capstan::monitor::Values& values);
  void summary(const Items& items);
  /// The run ended, with an exit code. A log without it is shown as one of a run that crashed.
  void ended(double now_s, int code);

 private:
  void append(const std::string& record);
  void frame(std::string_view piece, char type);

  std::filesystem::path file_;
  std::ofstream out_;
  std::size_t offset_ = 0;  ///< bytes written
  std::int64_t records_ = 0;
  std::int64_t rows_ = 0;
  double start_s_ = 0;
};

}  // namespace wandb
