#pragma once
#include <capstan/base/error.h>

#include <string>

/// The message of the Error that `body` throws; "no error" when it throws none.
template <class Body>
std::string fault_of(const Body& body) {
  try {
    body();
  } catch (const capstan::Error& error) {
    return error.what();
  }
  return "no error";
}
