#pragma once
#include <capstan/base/export.h>

#include <filesystem>
#include <string>
#include <vector>

#include "launch/comm_settings.h"

CAPSTAN_BEGIN_NAMESPACE
namespace ranks {

struct Rank;

/// What rank 0 prints about each rank.
struct RankRow {
  std::string host;
  std::string gpu;  ///< describe_gpu(); empty on CPU
  std::string cpus;
  std::string numa;  ///< of the CPUs
  int threads = 1;
  std::string identity;  ///< of the GPU

  std::string serialized() const;
  static RankRow parse(const std::string& text);
};

/// How the ranks are connected.
struct Connections {
  int size = 1;
  int nodes = 1;
  std::string launcher;
  std::string backend;
  std::string rendezvous;
  launch::Variables variables;
};

/// One line on the connections and one for each rank.
std::string start_text(const Connections& connections, const std::vector<RankRow>& rows);
/// The same as JSON, for the run's folder.
std::string start_json(const Connections& connections, const std::vector<RankRow>& rows);

/// Every rank's row; refuses two ranks on one GPU. Collective.
std::vector<RankRow> meet_all(const Rank& rank);
/// Rank 0 prints start_text() if there are several ranks.
void print_start_table(const Rank& rank);
/// Rank 0 writes start_json() to launch.json in the run's folder.
void record_start(const Rank& rank, const std::filesystem::path& folder);

}  // namespace ranks
CAPSTAN_END_NAMESPACE
