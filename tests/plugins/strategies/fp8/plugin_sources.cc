// The plugin exports nothing but its entry, so its code is compiled into the test.
#include "plugins/strategies/fp8/counts.cc"
#include "plugins/strategies/fp8/feed_forward.cc"
#include "plugins/strategies/fp8/frozen.cc"
#include "plugins/strategies/fp8/multiplier.cc"
#include "plugins/strategies/fp8/reference.cc"
#include "plugins/strategies/fp8/scaled.cc"
#include "plugins/strategies/fp8/stored.cc"
#include "plugins/strategies/fp8/stored_tiles.cc"
