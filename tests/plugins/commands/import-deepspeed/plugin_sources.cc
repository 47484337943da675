// The plugin exports nothing but its entry, so its code is compiled into the test.
#include "plugins/commands/import-deepspeed/deepspeed_json.cc"
#include "plugins/commands/import-deepspeed/deepspeed_keys.cc"
#include "plugins/commands/import-deepspeed/hints.cc"
#include "plugins/commands/import-deepspeed/translate.cc"
