#pragma once
/// Start here to write an optimizer:
///
///     class Mine : public capstan::optimizer::Rule { … constructed from config::Options<MineOptions> … };
///     CAPSTAN_OPTIMIZER("mine", "1.0", "what it does", Mine, MineOptions)
///
/// The options are those of [optimizer] that are not Capstan's own, such as lr and weight_decay.
#include <capstan/config/options.h>
#include <capstan/optimizer/rule.h>
#include <capstan/plugin/descriptor.h>

#define CAPSTAN_OPTIMIZER(name, version, summary, Class, OptionStruct) \
  CAPSTAN_PLUGIN("optimizer", name, version, summary,                  \
                 (&capstan::plugin::add_type<capstan::optimizer::Rule, Class, OptionStruct>))
