// The plugin exports nothing but its entry, so its code is compiled into the test.
#include "plugins/strategies/expert_parallel/exchange.cc"
#include "plugins/strategies/expert_parallel/expert_parallel.cc"
