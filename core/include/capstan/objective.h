#pragma once
/// Start here to write an objective:
///
///     class Mine : public capstan::objective::Objective { … constructed from config::Options<MineOptions> … };
///     CAPSTAN_OBJECTIVE("mine", "1.0", "what it minimises", Mine, MineOptions)
#include <capstan/config/options.h>
#include <capstan/nn/head.h>
#include <capstan/objective/objective.h>
#include <capstan/plugin/descriptor.h>

#define CAPSTAN_OBJECTIVE(name, version, summary, Class, OptionStruct) \
  CAPSTAN_PLUGIN("objective", name, version, summary,                  \
                 (&capstan::plugin::add_type<capstan::objective::Objective, Class, OptionStruct>))
