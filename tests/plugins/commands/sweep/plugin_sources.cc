// The plugin exports nothing but its entry, so its code is compiled into the test.
#include "plugins/commands/sweep/child.cc"
#include "plugins/commands/sweep/planned_runs.cc"
