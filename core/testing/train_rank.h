#pragma once
#include <capstan/comm/communicator.h>
#include <capstan/testing.h>

#include <cstdint>
#include <filesystem>
#include <map>
#include <mutex>
#include <string>
#include <vector>

#include "step/session.h"

namespace capstan::testing {

/// A folder that is removed with the object.
class Folder {
 public:
  Folder();
  ~Folder();
  Folder(const Folder&) = delete;
  Folder& operator=(const Folder&) = delete;
  const std::filesystem::path& path() const { return path_; }

 private:
  std::filesystem::path path_;
};

/// What the ranks of a run assemble together, and the run's folder.
class Collected {
 public:
  /// Adds to `run`, which must outlive it.
  explicit Collected(TrainResult& run) : run_(run) {}
  const std::filesystem::path& folder() const { return folder_.path(); }
  void gradients(const step::Session& session);
  void weights(const step::Session& session);
  void evaluated(const step::Session& session);
  void states(const step::Session& session);
  /// The same on all ranks: one of them says it.
  void step(double loss, double norm);

 private:
  std::map<std::string, at::Tensor>& states_of(const std::string& name);
  void merge(const char* what, std::map<std::string, at::Tensor>& whole, const std::vector<shard::StoredBox>& boxes);

  TrainResult& run_;
  Folder folder_;
  std::mutex mutex_;
};

/// What of a run is trained.
struct Stretch {
  std::int64_t end = -1;             ///< steps that are done then, as in a run that is stopped; -1: all
  std::filesystem::path from = {};   ///< a checkpoint that it continues from; empty: none
  bool is_last = true;               ///< another continues from its checkpoint otherwise
  std::int64_t verify_replicas = 0;  ///< as run.verify_replicas
};

/// One rank's part of a run, by the loop of `capstan run` (train/loop.h) with an observer. The first step's gradients
/// are kept, if it begins with that, and the weights at the last one's end.
void train_rank(job::Job job, comm::Communicator& communicator, const Stretch& stretch, Collected& collected);

}  // namespace capstan::testing
