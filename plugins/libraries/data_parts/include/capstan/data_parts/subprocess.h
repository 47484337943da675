#pragma once
#include <capstan/base/export.h>

#include <chrono>
#include <cstddef>
#include <filesystem>
#include <functional>
#include <stop_token>
#include <string>
#include <string_view>
#include <vector>

CAPSTAN_BEGIN_NAMESPACE

/// A program that is to be run, and what of its output is kept.
struct Program {
  std::vector<std::string> arguments;  ///< the first is the program, which is looked for in PATH unless it has a slash
  std::string input = {};              ///< its standard input begins with this
  /// Called when all input so far is taken: what follows. An empty text ends the input. Not set: nothing follows.
  std::function<std::string()> more_input = {};
  std::filesystem::path input_file = {};  ///< its standard input, in place of the two above; empty: those
  /// Gets what it writes to standard output, piece by piece as it comes, in place of EndedProgram::output.
  std::function<void(std::string_view)> on_output = {};
  std::size_t most_output = std::size_t{1} << 20;  ///< bytes of standard output that are kept, the first ones
  std::size_t most_errors = std::size_t{1} << 14;  ///< bytes of standard error that are kept, the last ones
  /// A program that takes no input, writes nothing and does not end for so long hangs, and is killed; 0: never.
  std::chrono::milliseconds patience{60000};
  /// Gets what it writes to standard error, piece by piece as it comes, besides EndedProgram::errors.
  std::function<void(std::string_view)> on_errors = {};
};

/// What became of a program.
struct EndedProgram {
  int status = 0;                         ///< its exit status, where it ended itself
  int signal = 0;                         ///< the signal that ended it; 0: none did
  bool is_hung = false;                   ///< it was killed since it gave no sign of life
  bool is_cut = false;                    ///< it wrote more to standard output than `output` holds
  std::string output = {};                ///< standard output
  std::string errors = {};                ///< standard error
  std::chrono::milliseconds patience{0};  ///< Program::patience

  bool succeeded() const { return status == 0 && signal == 0 && !is_hung; }
  /// "ended with exit status 3", "was ended by signal 11 (SIGSEGV)", "gave no sign of life for 60 s and was ended".
  std::string text() const;
  /// "; it said: …", the last line that it wrote to standard error; empty: it wrote none.
  std::string last_words() const;
};

/// Runs a program to its end, with this process's variables and in a process group of its own. Whatever it wrote, no
/// more of it is in memory than `program` says. When this function is left, by an exception of a callback too, all
/// processes of the group are gone; the program is also killed when the calling thread or its process ends. Callbacks
/// are called on the calling thread. Throws Error for a program that cannot be started, and FileError for an input file
/// that cannot be read. Thread-safe.
EndedProgram run_program(const Program& program);
/// The same, until somebody asks for the stop: the group is then killed within 50 ms, which EndedProgram tells as
/// signal 9.
EndedProgram run_program(const Program& program, const std::stop_token& stop);

/// The Python 3 that an option names; empty: that of $VIRTUAL_ENV, else python3 of PATH.
std::string python_program(const std::string& named);

CAPSTAN_END_NAMESPACE
