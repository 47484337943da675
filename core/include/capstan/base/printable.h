#pragma once
#include <capstan/base/export.h>

#include <cstddef>
#include <string>
#include <string_view>

CAPSTAN_BEGIN_NAMESPACE

/// A text that may come from a file, as it may be shown on a terminal: control characters (terminals' commands begin
/// with one) and bytes that are no UTF-8 are written as "\x1b", those after ASCII and those of writing direction as
/// "\u202e", line ends as "\n".
std::string printable(std::string_view text);
/// The same for a message of several lines: its lines stay, but all after the first are indented, so that what a file
/// put into a message cannot pass for a message of its own.
std::string printable_lines(std::string_view text);

/// Whether the text is UTF-8 as Unicode defines it (no surrogates, nothing overlong).
bool is_utf8(std::string_view text);

/// Where a JSON text is broken, in words: "line 3, column 7: …". `byte`: how many bytes were read when it was seen,
/// from 1; 0 for a number beyond a double's range. See JsonParseError::byte in capstan/json/error.h.
std::string json_fault(std::string_view text, std::size_t byte);

CAPSTAN_END_NAMESPACE
