// The plugin exports nothing but its entry, so its code is compiled into the test.
#include "plugins/data/squad/metric.cc"
#include "plugins/data/squad/prompt.cc"
#include "plugins/data/squad/squad.cc"
#include "plugins/data/squad/squad_file.cc"
#include "plugins/data/squad/unicode.cc"
