#pragma once
/// Start here to write a monitor:
///
///     class Mine : public capstan::monitor::Monitor { … constructed from config::Options<MineOptions> … };
///     CAPSTAN_MONITOR("mine", "1.0", "what it shows", Mine, MineOptions)
#include <capstan/config/options.h>
#include <capstan/monitor/monitor.h>
#include <capstan/monitor/tracer.h>
#include <capstan/plugin/descriptor.h>

/// Stands next to the CAPSTAN_MONITOR line of a monitor of Capstan's own that a run opens where its configuration has
/// no table of it; `enabled = false` in that table turns it off. Its options all have defaults. It counts only in the
/// folder of the installation's plugins.
#define CAPSTAN_OPENED_BY_DEFAULT CAPSTAN_NOTE("6", "default")

#define CAPSTAN_MONITOR(name, version, summary, Class, OptionStruct) \
  CAPSTAN_PLUGIN("monitor", name, version, summary,                  \
                 (&capstan::plugin::add_type<capstan::monitor::Monitor, Class, OptionStruct>))
