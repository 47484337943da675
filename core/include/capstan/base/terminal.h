#pragma once
#include <capstan/base/export.h>

#include <ostream>
#include <streambuf>
#include <string>
#include <string_view>

CAPSTAN_BEGIN_NAMESPACE
namespace terminal {

// The one place where text leaves the program for people: nothing else writes to standard output and error
// (tools/check-house looks for it), so no command can forget that a file's text may hold a terminal's commands. Control
// characters and what is no UTF-8 are written as capstan/base/printable.h says; line ends and tabs stay.

/// Writes to standard output.
void print(std::string_view text);
/// Writes to standard error.
void print_error(std::string_view text);
/// A part of a line that a terminal shows dimmed.
void print_dimmed(std::string_view text);
/// Replaces all that the terminal shows.
void print_screen(std::string_view text);
/// A line on standard error that replaces the one before it on a terminal, and is a line of its own elsewhere.
void print_progress(std::string_view line, bool is_last);
/// Whether all has been written to standard output; if not, errno says why, 0: it is not known.
bool flush_output();

/// What commands write to where they want a stream. Lines leave when they are whole, the rest with a flush or the
/// object's end.
class PrintedStream : public std::ostream {
 public:
  /// `print` or `print_error`.
  explicit PrintedStream(void (*to)(std::string_view)) : std::ostream(nullptr), buffer_(to) { rdbuf(&buffer_); }
  ~PrintedStream() override { buffer_.pubsync(); }
  PrintedStream(const PrintedStream&) = delete;
  PrintedStream& operator=(const PrintedStream&) = delete;

 private:
  class Buffer : public std::streambuf {
   public:
    explicit Buffer(void (*to)(std::string_view)) : to_(to) {}

   protected:
    int_type overflow(int_type c) override;
    std::streamsize xsputn(const char* text, std::streamsize count) override;
    int sync() override;

   private:
    void (*to_)(std::string_view);
    std::string held_;
  };
  Buffer buffer_;
};

}  // namespace terminal
CAPSTAN_END_NAMESPACE
