#pragma once
#include <capstan/base/export.h>

#include <string>
#include <string_view>

CAPSTAN_BEGIN_NAMESPACE
namespace log {

enum class Level { debug, info, warning, error };

/// Writes one line to the process's log. Thread-safe. Before configure() only warnings and errors go out, to stderr.
void write(Level level, std::string_view message);
inline void debug(std::string_view message) { write(Level::debug, message); }
inline void info(std::string_view message) { write(Level::info, message); }
inline void warning(std::string_view message) { write(Level::warning, message); }
inline void error(std::string_view message) { write(Level::error, message); }

/// Where lines go: everything into `file` (one a rank; empty = no file), and from `console` upwards to stderr.
/// Lines are flushed when written. May be called again.
void configure(const std::string& file, Level console, int rank);

}  // namespace log
CAPSTAN_END_NAMESPACE
