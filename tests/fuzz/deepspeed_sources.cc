#include "plugins/commands/import-deepspeed/deepspeed_json.cc"
#include "plugins/commands/import-deepspeed/deepspeed_keys.cc"
#include "plugins/commands/import-deepspeed/translate.cc"
