#pragma once
/// Start here to write a data source:
///
///     class Mine : public capstan::data::Data { … constructed from config::Options<MineOptions> … };
///     CAPSTAN_DATA("mine", "1.0", "what it reads", Mine, MineOptions)
#include <capstan/config/options.h>
#include <capstan/data/order.h>
#include <capstan/data/parts.h>
#include <capstan/data/source.h>
#include <capstan/plugin/descriptor.h>

#define CAPSTAN_DATA(name, version, summary, Class, OptionStruct) \
  CAPSTAN_PLUGIN("data", name, version, summary, (&capstan::plugin::add_type<capstan::data::Data, Class, OptionStruct>))
