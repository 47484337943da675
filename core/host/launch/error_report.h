#pragma once
#include <capstan/base/error.h>
#include <capstan/base/export.h>

#include <exception>
#include <optional>
#include <string>

CAPSTAN_BEGIN_NAMESPACE
namespace launch {

/// What is printed of an error: each fault on its own lines, counted when there are several.
std::string error_text(const Error& error);
/// A lack of memory on this host, with what to do; `detail` may say how much was asked for.
Error no_host_memory(const std::string& detail);
/// What the system threw, where it is no bug but a lack of memory or what the file system said, in words. Nothing for
/// an Error, and for all else. What LibTorch throws: ranks/torch_words.h.
std::optional<Error> in_words(const std::exception& exception);
/// Prints an exception to stderr, an Error as its faults and anything else as a bug; returns the exit code.
int report_exception(const std::exception& exception);

}  // namespace launch
CAPSTAN_END_NAMESPACE
