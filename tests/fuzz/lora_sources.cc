// The plugin exports nothing but its entry, so its code is compiled into the test.
#include "plugins/strategies/lora/peft.cc"
#include "plugins/strategies/lora/peft_source.cc"
#include "plugins/strategies/lora/peft_whole.cc"
