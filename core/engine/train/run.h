#pragma once
#include <capstan/base/export.h>
#include <capstan/comm/communicator.h>
#include <capstan/command/run_extension.h>
#include <capstan/plugin/host.h>

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "job/resume.h"
#include "record/run_lock.h"
#include "step/session.h"
#include "step/stop.h"
#include "train/loop.h"
#include "train/prepare_together.h"
#include "train/run_folder.h"

CAPSTAN_BEGIN_NAMESPACE
namespace train {

/// What a run calls besides its loop.
struct Extension {
  std::string name;
  std::shared_ptr<command::RunExtension> object;
};

/// What a run says to people, on rank 0.
struct RunOutput {
  std::function<void(const std::string&)> print;  ///< for standard output
  ShowProgress show;
  bool is_terminal = false;  ///< standard output
  bool overwrites = false;   ///< `show` does, on a terminal
  bool verbose = false;      ///< all that is known at the start is said
};

/// What a rank brings into a run. Functions are called once, in this order.
struct RunSetting {
  comm::Communicator& communicator;
  plugin::Host& plugins;
  const step::Stop& stop;
  command::RankDevice device;
  std::function<std::optional<std::string>(const std::string&)> environment;
  RunOutput output;
  std::string job;                    ///< SLURM's number and restart, "4711.0"; empty: none
  std::string offload_warning;        ///< what rank 0 says where the optimizer is offloaded; empty: nothing
  checkpoint::AtPoint at_point = {};  ///< for crash tests
  /// What is run. A collective.
  std::function<setup::JobRequest()> request;
  /// The configuration is in order, and nothing of it is loaded. A collective.
  std::function<void(const job::Job&)> prepared;
  /// Core's own extensions of this job; those of the configuration's tables come to them.
  std::function<std::vector<Extension>(const job::Job&)> extensions;
  /// The run's folder is there and this rank's log is open.
  std::function<void(const std::filesystem::path&)> opened;
};

/// How a run ended on this rank.
struct RunEnd {
  std::optional<int> exit_code;  ///< none: the ranks were asked to stop, and have agreed to
  std::string when;              ///< they did: "after step 12", "while loading the model"
  bool resumable = false;        ///< a later start resumes there
  int requeue_exit_code = 0;
  std::filesystem::path folder = {};  ///< the run's; empty where it was not made yet
};

/// A run: a configuration is read, a model is loaded, trained and saved. One object a rank and process. Every rank
/// calls the same; what it holds stays as it is when something throws.
class Run {
 public:
  explicit Run(RunSetting setting) : setting_(std::move(setting)) {}
  /// All of it. Throws ConfigurationRefused where the configuration has faults.
  RunEnd train();
  /// Called after train() has thrown: says what could not be written, and lets other processes have the folder.
  void give_up();
  /// What this rank's GPU was predicted to hold and holds, a table; empty on CPUs and before the prediction.
  std::string memory_text() const;

 private:
  int load();
  void read_job(const step::StopAgreement& agreement);
  void hold_folder(const step::StopAgreement& agreement);
  int call_extensions(const step::StopAgreement& agreement);
  void load_model(const step::StopAgreement& agreement);
  std::optional<int> train_loaded();
  void end_extensions(const Loop& loop, std::int64_t steps_done);
  std::string start_text() const;
  bool has_lost_results();
  bool first() const { return setting_.communicator.world().rank == 0; }

  RunSetting setting_;
  std::string when_;
  bool saved_ = false;  ///< checkpoints, whatever the options say
  std::unique_ptr<record::RunLock> lock_;
  std::optional<job::Job> job_;
  std::vector<Extension> extensions_;
  std::optional<RunFolder> folder_;
  job::Resume resume_;
  std::optional<step::Session> session_;
};

}  // namespace train
CAPSTAN_END_NAMESPACE
