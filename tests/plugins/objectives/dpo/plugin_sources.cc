// The plugin exports nothing but its entry, so its code is compiled into the test.
#include "plugins/objectives/dpo/dpo.cc"
#include "plugins/objectives/dpo/options.cc"
#include "plugins/objectives/dpo/preference_loss.cc"
