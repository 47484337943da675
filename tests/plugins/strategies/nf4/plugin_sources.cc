// The plugin exports nothing but its entry, so its code is compiled into the test.
#include "plugins/strategies/nf4/bnb.cc"
#include "plugins/strategies/nf4/codec.cc"
