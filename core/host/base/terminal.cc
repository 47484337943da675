#include <capstan/base/printable.h>
#include <capstan/base/terminal.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>

namespace capstan::terminal {
namespace {

// "\r\n" is how lines of CSV end.
std::string shown(std::string_view text) {
  std::string out;
  while (!text.empty()) {
    const auto end = text.find_first_of("\n\t");
    auto part = text.substr(0, end);
    const bool returns = end != std::string_view::npos && text[end] == '\n' && part.ends_with('\r');
    if (returns) part.remove_suffix(1);
    out += printable(part);
    if (end == std::string_view::npos) break;
    if (returns) out += '\r';
    out += text[end];
    text.remove_prefix(end + 1);
  }
  return out;
}

void put(std::string_view text, std::FILE* to) { std::fwrite(text.data(), 1, text.size(), to); }

}  // namespace

void print(std::string_view text) { put(shown(text), stdout); }
void print_error(std::string_view text) { put(shown(text), stderr); }
void print_dimmed(std::string_view text) { put("\033[2m" + shown(text) + "\033[0m", stdout); }

void print_screen(std::string_view text) {
  put("\033[H\033[J" + shown(text), stdout);  // the cursor to the upper left, and all after it away
}

void print_progress(std::string_view line, bool is_last) {
  const bool terminal = ::isatty(STDERR_FILENO) == 1;
  put((terminal ? "\r" : "") + shown(line) + (is_last || !terminal ? "\n" : ""), stderr);
}

bool flush_output() {
  errno = 0;
  return std::fflush(stdout) == 0 && std::ferror(stdout) == 0;
}

PrintedStream::Buffer::int_type PrintedStream::Buffer::overflow(int_type c) {
  if (traits_type::eq_int_type(c, traits_type::eof())) return traits_type::not_eof(c);
  const char one = traits_type::to_char_type(c);
  return xsputn(&one, 1) == 1 ? c : traits_type::eof();
}

std::streamsize PrintedStream::Buffer::xsputn(const char* text, std::streamsize count) {
  held_.append(text, static_cast<std::size_t>(count));
  if (const auto end = held_.rfind('\n'); end != std::string::npos) {
    to_(std::string_view(held_).substr(0, end + 1));
    held_.erase(0, end + 1);
  }
  return count;
}

int PrintedStream::Buffer::sync() {
  to_(held_);
  held_.clear();
  return 0;
}

}  // namespace capstan::terminal
