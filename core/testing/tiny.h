#pragma once
#include <capstan/plugin/registry.h>

namespace capstan::testing {

/// The model "tiny" and the data source "tiny".
plugin::Registration tiny_model();
plugin::Registration tiny_data();

}  // namespace capstan::testing
