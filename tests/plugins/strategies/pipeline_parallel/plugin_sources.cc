// The plugin exports nothing but its entry, so its code is compiled into the test.
#include "plugins/strategies/pipeline_parallel/cut.cc"
#include "plugins/strategies/pipeline_parallel/drawing.cc"
#include "plugins/strategies/pipeline_parallel/pipeline_parallel.cc"
#include "plugins/strategies/pipeline_parallel/schedules.cc"
#include "plugins/strategies/pipeline_parallel/table.cc"
#include "plugins/strategies/pipeline_parallel/table_file.cc"
