#pragma once
#include <capstan/base/export.h>

#include <string>
#include <vector>

#include "setup/configuration.h"

CAPSTAN_BEGIN_NAMESPACE
namespace launch {

/// The command line of a command that ranks run together.
struct RunArguments {
  std::string config;
  std::vector<std::string> overrides;
  int ranks = 0;             ///< local ranks to start; 0: not given
  bool spawn_local = false;  ///< a task that is the only one srun started on its node starts the node's ranks
  std::vector<std::string> command_line;  ///< the program's name and all that follows, to start local ranks with
  setup::Purpose purpose = setup::Purpose::train;
  std::string weights;     ///< folder of a run's weights, see setup::JobRequest
  std::string split = {};  ///< the same
  bool verbose = false;    ///< say at the start all that is known of ranks and model
};

/// The command line of `capstan check`.
struct CheckArguments {
  std::string config;
  std::vector<std::string> overrides;
  int ranks = 0;              ///< 0: not given
  std::string resolved = {};  ///< a file to write the resolved configuration to; empty: none
  std::string gpu = {};       ///< a GPU or a size of memory that the run is to fit into; empty: none
  int nodes = 0;              ///< nodes that the ranks are spread over; 0: not given, all ranks are on one
};

}  // namespace launch
CAPSTAN_END_NAMESPACE
