#pragma once
#include <capstan/base/export.h>

CAPSTAN_BEGIN_NAMESPACE

/// What the program's exit status says. Scripts and schedulers read these.
enum class ExitCode : int {
  success = 0,
  failure = 1,                  ///< the run failed: an Error while running
  usage = 2,                    ///< the command line or the configuration is wrong; nothing was started
  bandwidth_unmeasurable = 44,  ///< the pre-flight's gate could not be measured
  bandwidth_low = 46,           ///< the all-reduce bandwidth is below preflight.min_bus_gbps
  bug = 70,                     ///< an exception that is not an Error: please report it
  peer_failed = 75,             ///< another rank failed first; its error is printed too
  interrupted = 130,            ///< ended by SIGINT or SIGTERM
};

CAPSTAN_END_NAMESPACE
