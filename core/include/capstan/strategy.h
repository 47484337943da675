#pragma once
/// Start here to write a strategy:
///
///     class Mine : public capstan::strategy::Strategy { … constructed from config::Options<MineOptions> … };
///     CAPSTAN_STRATEGY("mine", "1.0", "what it does", Mine, MineOptions)
#include <capstan/config/options.h>
#include <capstan/plugin/descriptor.h>
#include <capstan/strategy/recompute.h>
#include <capstan/strategy/strategy.h>

#define CAPSTAN_STRATEGY(name, version, summary, Class, OptionStruct) \
  CAPSTAN_PLUGIN("strategy", name, version, summary,                  \
                 (&capstan::plugin::add_type<capstan::strategy::Strategy, Class, OptionStruct>))
