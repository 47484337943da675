// The plugin exports nothing but its entry, so its code is compiled into the test.
#include "plugins/monitors/train_speed/speed.cc"
