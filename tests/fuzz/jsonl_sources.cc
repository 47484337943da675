// The plugin exports nothing but its entry, so its code is compiled into the test.
#include "plugins/data/jsonl/line.cc"
#include "plugins/data/jsonl/mapped_lines.cc"
#include "plugins/data/jsonl/record.cc"
#include "plugins/data/jsonl/template.cc"
