#pragma once
#include <capstan/base/export.h>

#include <string>
#include <vector>

CAPSTAN_BEGIN_NAMESPACE
namespace ranks {

struct Rank;

/// What rank 0 prints about each rank.
struct RankRow {
  std::string host;
  std::string gpu;  ///< describe_gpu(); empty on CPU
  std::string cpus;
  std::string numa;  ///< the CPUs' NUMA nodes
  int threads = 1;
  std::string identity;  ///< the GPU's
};

/// Every rank's row; refuses two ranks on one GPU. Collective.
std::vector<RankRow> meet_all(const Rank& rank);

/// How the ranks are connected, and one line for each of them.
std::string start_text(const Rank& rank);
/// The same as JSON, for the run's folder.
std::string start_json(const Rank& rank);

}  // namespace ranks
CAPSTAN_END_NAMESPACE
