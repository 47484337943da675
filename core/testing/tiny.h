#pragma once
#include <capstan/plugin/registry.h>

namespace capstan::testing {

/// The model "tiny", the data source "tiny" and the optimizer "descent": what capstan/testing.h says of them.
plugin::Registration tiny_model();
plugin::Registration tiny_data();
plugin::Registration descent();

}  // namespace capstan::testing
