// The plugin exports nothing but its entry, so its code is compiled into the test.
#include "plugins/objectives/distill/distill.cc"
#include "plugins/objectives/distill/options.cc"
