// The plugin exports nothing but its entry, so its code is compiled into the test.
#include "plugins/strategies/recompute/attention_results.cc"
#include "plugins/strategies/recompute/host_copies.cc"
#include "plugins/strategies/recompute/recompute.cc"
#include "plugins/strategies/recompute/tiles.cc"
