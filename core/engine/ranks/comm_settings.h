#pragma once
#include <capstan/base/export.h>

#include <map>
#include <string>
#include <vector>

#include "setup/options.h"

CAPSTAN_BEGIN_NAMESPACE
namespace ranks {

using Variables = std::map<std::string, std::string>;

/// Every variable of this process.
Variables all_variables();

/// How [comm] and the environment steer NCCL and Gloo.
struct CommSettings {
  std::string interface;  ///< for rendezvous and Gloo; empty: the one that reaches the rendezvous
  Variables set;          ///< to be set before NCCL starts
  Variables all;          ///< the environment's and `set`: shown and recorded
  std::vector<std::string> warnings;
};

/// comm.interface, ib_hca and algorithm become NCCL_SOCKET_IFNAME, NCCL_IB_HCA and NCCL_ALGO; if the environment has
/// another value, that is used, with a warning. Without comm.interface GLOO_SOCKET_IFNAME is used.
CommSettings comm_settings(const setup::CommOptions& options, const Variables& environment);

/// "NCCL_ALGO=Tree NCCL_IB_HCA=mlx5"; "" when there are none.
std::string text(const Variables& variables);

}  // namespace ranks
CAPSTAN_END_NAMESPACE
