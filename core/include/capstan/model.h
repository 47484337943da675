#pragma once
/// Start here to write a model:
///
///     class Mine : public capstan::nn::Model { … constructed from config::Options<MineOptions> … };
///     CAPSTAN_MODEL("mine", "1.0", "what it is", Mine, MineOptions)
#include <capstan/config/options.h>
#include <capstan/nn/model.h>
#include <capstan/plugin/descriptor.h>

#define CAPSTAN_MODEL(name, version, summary, Class, OptionStruct) \
  CAPSTAN_PLUGIN("model", name, version, summary, (&capstan::plugin::add_type<capstan::nn::Model, Class, OptionStruct>))
