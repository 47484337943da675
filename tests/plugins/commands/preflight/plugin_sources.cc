// The plugin exports nothing but its entry, so its code is compiled into the test.
#include "plugins/commands/preflight/judge.cc"
#include "plugins/commands/preflight/link_measures.cc"
#include "plugins/commands/preflight/rank_measures.cc"
#include "plugins/commands/preflight/report.cc"
