#pragma once
#include <capstan/base/export.h>

CAPSTAN_BEGIN_NAMESPACE

/// What the program's exit status says. Scripts and schedulers read these.
enum class ExitCode : int {
  success = 0,
  failure = 1,        ///< the run failed: an Error while running
  usage = 2,          ///< the command line or the configuration is wrong; nothing was started
  bug = 70,           ///< an exception that is not an Error: please report it
  peer_failed = 75,   ///< another rank failed first; its error is printed on top
  interrupted = 130,  ///< ended by SIGINT or SIGTERM
};

CAPSTAN_END_NAMESPACE
