#pragma once
#include <capstan/base/export.h>

#include <string>
#include <vector>

CAPSTAN_BEGIN_NAMESPACE
namespace launch {

/// Who this process is among its peers. Made once, in launch/launch, from srun's, torchrun's, MPI's or the local
/// launcher's environment; other rooms do not read the environment.
struct World {
  int rank = 0;
  int size = 1;
  int local_rank = 0;  ///< among the ranks of this host
  int local_size = 1;
  int node = 0;
  int nodes = 1;
  std::string host = "localhost";
  std::string launcher = "alone";  ///< "alone", "local", "srun", "torchrun", "mpi", "in-process"
};

/// The rendezvous of a run's ranks: a key-value store, usually in rank 0.
struct Rendezvous {
  std::string host;         ///< the store's address (MASTER_ADDR); empty: it is read from `file`
  int port = 0;             ///< its port
  std::string file;         ///< where rank 0 publishes "address:port", a line each, and the others read it
  std::vector<int> ports;   ///< with `file`: ports that rank 0 may use; it takes the first free one; empty: any
  std::string prefix;       ///< prefix of every key: tells the attempts of one job apart
  std::string secret;       ///< the run's, which every connection proves; empty: what secret_file holds
  std::string secret_file;  ///< where rank 0 then writes one that only this user can read; empty: there is none
  bool is_torch = false;    ///< torchrun's agent runs the store, which knows no secrets
  bool store_exists =
      false;  ///< somebody else runs the store (torchrun's agent, the local launcher): all ranks are clients

  std::string text() const;  ///< "node1:29500", or the file's name
};

}  // namespace launch
CAPSTAN_END_NAMESPACE
