#pragma once
#include <capstan/base/error.h>
#include <capstan/base/export.h>

#include <exception>
#include <optional>

CAPSTAN_BEGIN_NAMESPACE
namespace ranks {

/// What the system or LibTorch threw, where it is no bug but a lack of memory or what the file system said, in words.
/// Nothing for an Error, and for all else.
std::optional<Error> in_words(const std::exception& exception);

/// Calls `fn`. What LibTorch throws leaves as an Error where in_words() has words for it, else as a std::logic_error,
/// which is reported as a bug: whoever called the engine need not know LibTorch's types.
[[noreturn]] void rethrow_without_torch();
template <class F>
auto without_torch_errors(const F& fn) {
  try {
    return fn();
  } catch (...) {
    rethrow_without_torch();
  }
}

}  // namespace ranks
CAPSTAN_END_NAMESPACE
