#pragma once
// Real ranks: this test program starts itself once per rank with one hidden test case.
#include "comm/connect.h"

#include <functional>
#include <string>
#include <vector>

namespace comm_test {

struct RankResult {
  int exit_code = 0;   ///< -signal when a signal ended it
  std::string output;  ///< stdout and stderr
};

/// Runs the hidden test case `name` on `size` ranks and returns what became of them; those still running after 60 s
/// are killed (exit code -9).
std::vector<RankResult> run_ranks(const std::string& name, int size);

/// In a rank: options that lead to its peers. The time limits suit tests.
capstan::comm::ConnectOptions rank_options();

/// In a rank: runs `body`, prints what it throws as "threw: …" or "peer failed: …", and ends the process as the
/// program would (0, 1 or 75).
void as_rank(const capstan::comm::ConnectOptions& options,
             const std::function<void(capstan::comm::Communicator&)>& body);

/// In a rank: what continues until a peer fails.
void all_reduce_for_ever(capstan::comm::Communicator& c);

/// CHECKs that all of them ended with 0.
void check_all_succeeded(const std::vector<RankResult>& ranks);

}  // namespace comm_test
