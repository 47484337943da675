#pragma once
#include <capstan/base/export.h>

#include <cstddef>
#include <optional>

#include "comm/failure.h"

CAPSTAN_BEGIN_NAMESPACE
namespace comm {

inline constexpr std::size_t failure_note_bytes = 2048;

/// The content of a FailureNote, by its file descriptor (-1: there is none); nothing while all ranks are alive.
std::optional<Failure> read_failure_note(int fd);

}  // namespace comm
CAPSTAN_END_NAMESPACE
