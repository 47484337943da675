// The plugin exports nothing but its entry, so its code is compiled into the test.
#include "plugins/monitors/console/lines.cc"
#include "plugins/monitors/console/screen.cc"
