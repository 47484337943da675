#pragma once
#include <capstan/base/error.h>
#include <capstan/base/export.h>

#include <string>

CAPSTAN_BEGIN_NAMESPACE
namespace launch {

/// What is printed of an error: each fault on its own lines, counted when there are several.
std::string error_text(const Error& error);
/// Prints an exception to stderr, an Error as its faults and anything else as a bug; returns the exit code.
int report_exception(const std::exception& exception);

}  // namespace launch
CAPSTAN_END_NAMESPACE
