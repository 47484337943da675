// The plugin exports nothing but its entry, so its code is compiled into the test.
#include "plugins/commands/plan/plan.cc"
#include "plugins/commands/plan/search.cc"
#include "plugins/commands/plan/stragglers.cc"
