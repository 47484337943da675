// The plugin exports nothing but its entry, so its code is compiled into the test.
#include "plugins/monitors/wandb/offline_run.cc"
#include "plugins/monitors/wandb/records.cc"
