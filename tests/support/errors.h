#pragma once
#include <capstan/base/error.h>

#include <exception>
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

/// What `in_words` makes of the exception that fn throws; "" where it has no words for it.
template <class InWords, class F>
std::string words_of(const InWords& in_words, F&& fn) {
  try {
    fn();
  } catch (const std::exception& error) {
    const auto known = in_words(error);
    return known ? known->what() : "";
  }
  return "nothing was thrown";
}

}  // namespace test
