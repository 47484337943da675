#pragma once
#include <capstan/base/error.h>

#include <string>

namespace test {

/// The message of the Error that fn throws; "" when it throws none.
template <class F>
std::string error_of(F&& fn) {
  try {
    fn();
  } catch (const capstan::Error& error) {
    return error.what();
  }
  return {};
}

}  // namespace test
