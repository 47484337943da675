// The plugin exports nothing but its entry, so its code is compiled into the test.
#include "plugins/optimizers/adam8bit/adam8bit.cc"
#include "plugins/optimizers/adam8bit/blocks.cc"
#include "plugins/optimizers/adam8bit/operator.cc"
#include "plugins/optimizers/adam8bit/update_cpu.cc"
