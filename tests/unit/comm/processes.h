#pragma once
// Real ranks: this test program starts itself once per rank with one hidden test case.
#include "comm/connect.h"

#include <cstddef>
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

/// In a rank: the same, to a rendezvous by address, as MASTER_ADDR and MASTER_PORT give it; the port is in
/// COMM_TEST_PORT.
capstan::comm::ConnectOptions at_an_address();

/// In a rank: runs `body`, prints what it throws as "threw: …" or "peer failed: …", and ends the process as the
/// program would (0, 1 or 75).
void as_rank(const capstan::comm::ConnectOptions& options,
             const std::function<void(capstan::comm::Communicator&)>& body);

/// In a rank: what continues until a peer fails.
void all_reduce_for_ever(capstan::comm::Communicator& c);

/// CHECKs that all of them ended with 0.
void check_all_succeeded(const std::vector<RankResult>& ranks);

/// CHECKs that everyone but `failed` ended with exit code 75, naming the first error and where it waited in
/// all_reduce_for_ever().
void check_peers(const std::vector<RankResult>& ranks, std::size_t failed, const std::string& first_error);

}  // namespace comm_test
