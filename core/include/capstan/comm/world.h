#pragma once
#include <capstan/base/export.h>

#include <string>

CAPSTAN_BEGIN_NAMESPACE
namespace comm {

/// Who this process is among its peers. Made once, in launch/launch, from srun's, torchrun's, MPI's or the local
/// launcher's environment; rooms below `launch` do not read the environment.
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

}  // namespace comm
CAPSTAN_END_NAMESPACE
