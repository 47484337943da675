#pragma once
/// Start here to write a monitor:
///
///     class Mine : public capstan::monitor::Monitor { … constructed from config::Options<MineOptions> … };
///     CAPSTAN_MONITOR("mine", "1.0", "what it shows", Mine, MineOptions)
#include <capstan/config/options.h>
#include <capstan/monitor/monitor.h>
#include <capstan/monitor/tracer.h>
#include <capstan/plugin/descriptor.h>

#define CAPSTAN_MONITOR(name, version, summary, Class, OptionStruct) \
  CAPSTAN_PLUGIN("monitor", name, version, summary,                  \
                 (&capstan::plugin::add_type<capstan::monitor::Monitor, Class, OptionStruct>))
