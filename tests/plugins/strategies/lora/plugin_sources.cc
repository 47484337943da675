// The plugin exports nothing but its entry, so what is tested by itself is compiled into the test.
#include "plugins/strategies/lora/low_rank.cc"
#include "plugins/strategies/lora/names.cc"
