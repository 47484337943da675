// Plugins export nothing but their entries, so what is tested by itself is compiled into the test.
#include "plugins/strategies/context_parallel/fused_tiles.cc"
#include "plugins/strategies/context_parallel/tiles.cc"
