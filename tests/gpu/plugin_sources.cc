// Plugins export nothing but their entries, so what is tested by itself is compiled into the test.
#include "plugins/strategies/lora/low_rank.cc"
