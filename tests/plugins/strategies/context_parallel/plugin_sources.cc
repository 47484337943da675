// The plugin exports nothing but its entry, so its code is compiled into the test.
#include "plugins/strategies/context_parallel/attention.cc"
#include "plugins/strategies/context_parallel/columns.cc"
#include "plugins/strategies/context_parallel/context_parallel.cc"
#include "plugins/strategies/context_parallel/fused_tiles.cc"
#include "plugins/strategies/context_parallel/ring.cc"
#include "plugins/strategies/context_parallel/tiles.cc"
