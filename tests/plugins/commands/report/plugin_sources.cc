// The plugin exports nothing but its entry, so its code is compiled into the test.
#include "plugins/commands/report/cells.cc"
#include "plugins/commands/report/chart.cc"
#include "plugins/commands/report/charts.cc"
#include "plugins/commands/report/kinds.cc"
#include "plugins/commands/report/page.cc"
#include "plugins/commands/report/table.cc"
#include "plugins/commands/report/tables.cc"
