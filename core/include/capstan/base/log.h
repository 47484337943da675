#pragma once
#include <capstan/base/export.h>

#include <chrono>
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
/// Lines are flushed when written; while the disk is full they wait in memory (base/line_file.h). May be
/// called again. Throws FileError for a file that cannot be opened.
void configure(const std::string& file, Level console, int rank);
/// Tries for so long to write lines that are held. Returns a message about what is missing then; empty: nothing is.
std::string finish(std::chrono::milliseconds patience);

}  // namespace log
CAPSTAN_END_NAMESPACE
