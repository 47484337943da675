#pragma once
#include <capstan/base/export.h>

#include <functional>
#include <string>

CAPSTAN_BEGIN_NAMESPACE
namespace launch {

/// From now on a mapped file that its file system no longer gives (EIO, ESTALE, a file that was cut off meanwhile) ends
/// the process with a message and the exit code of a failure. The kernel sends SIGBUS to the thread that reads it, and
/// from there no exception leads back to the code that read. Any other SIGBUS ends the process as before.
void report_lost_files();

/// Called first with the error, by the thread that read: how a rank tells the others. Empty: none is told.
void tell_of_lost_files(std::function<void(const std::string& error)> tell);

}  // namespace launch
CAPSTAN_END_NAMESPACE
