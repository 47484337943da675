// The plugin exports nothing but its entry, so its metric is compiled into the test.
#include "plugins/data/squad/metric.cc"
#include "plugins/data/squad/unicode.cc"
