#pragma once
#include <capstan/base/export.h>

#include <string>

CAPSTAN_BEGIN_NAMESPACE
namespace monitor {

/// For a file that a command line names to be written (-o FILE): throws Error if it is a file of a run, or a link,
/// unless that leads to a device or a pipe. Empty: none is named. Called before the work whose result it gets.
void check_output(const std::string& file);
/// The same, then writes it: a device or a pipe as it is, anything else complete or not at all.
void write_output(const std::string& file, const std::string& text);

}  // namespace monitor
CAPSTAN_END_NAMESPACE
