#pragma once
#include <cstdlib>

namespace capstan::testing {

/// Whether all is run (`tools/test --full`), and not only what shows each pair of choices.
inline bool runs_all() {
  return std::getenv("CAPSTAN_TEST_ALL") != nullptr;  // NOLINT(concurrency-mt-unsafe): nothing sets it
}

}  // namespace capstan::testing
