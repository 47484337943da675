#pragma once
#include <stdexcept>

namespace capstan::train {

/// Faults of the configuration that some rank found and all ranks know, as they are printed.
class ConfigurationRefused : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

}  // namespace capstan::train
