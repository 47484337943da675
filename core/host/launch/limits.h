#pragma once
#include <capstan/base/export.h>

#include <cstdint>
#include <string>

CAPSTAN_BEGIN_NAMESPACE
namespace launch {

/// Ends the process with a message where ulimit -v or -s leaves too little for LibTorch to start: its initialisers
/// would end it with SIGABRT or SIGSEGV. The executable calls this before any library's initialisers, so it uses only
/// the C library.
void check_start_limits();
/// Whether these are too little, and in `out` what check_start_limits() prints then. Sizes in KiB: what the libraries
/// take, and the limits, ~0 where none is set.
bool start_limit_fault(std::uint64_t mapped, std::uint64_t memory, std::uint64_t stack, char* out, unsigned size);

/// How many open files a rank of `ranks` needs, and a process that starts `local_ranks`.
std::int64_t files_of_rank(int ranks);
std::int64_t files_of_starter(int local_ranks);
/// Lets this process have this many open files, as far as its hard limit allows; throws Error where that is lower.
/// `who` needs them: "a rank of 2".
void need_open_files(std::int64_t files, const std::string& who);

}  // namespace launch
CAPSTAN_END_NAMESPACE
