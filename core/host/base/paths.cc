#include <capstan/base/paths.h>

#include <sys/stat.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>

#include "base/limit_text.h"

namespace capstan {
namespace {

namespace fs = std::filesystem;

struct Meaning {
  int number;
  const char* what;
  const char* fix;
};

constexpr const char* ask_again = "look whether its file system is mounted and well (ls, df, dmesg), then start again";

// strerror's text often does not say what to do.
constexpr std::array meanings{
    Meaning{EACCES, "Permission denied (EACCES): this user may not read or write there",
            "give this user the right (ls -ld of it and of every folder above shows who has it), or run as its owner"},
    Meaning{EPERM, "Operation not permitted (EPERM)", "run as its owner, or look at its attributes (lsattr)"},
    Meaning{EIO, "Input/output error (EIO): the disk or the server of its file system failed", ask_again},
    Meaning{ESTALE, "Stale file handle (ESTALE): the server of its file system knows it no more", ask_again},
    Meaning{ENODEV, "No such device (ENODEV)", ask_again},
    Meaning{ENXIO, "No such device or address (ENXIO): a device that is gone, or a pipe that no process reads",
            ask_again},
    Meaning{ETIMEDOUT, "Connection timed out (ETIMEDOUT): the server of its file system does not answer", ask_again},
    Meaning{ENOTCONN, "Not connected (ENOTCONN): its file system has lost its server", ask_again},
    Meaning{EHOSTDOWN, "Host is down (EHOSTDOWN): the server of its file system", ask_again},
    Meaning{ELOOP, "Too many levels of symbolic links (ELOOP): they lead in a circle",
            "repair the links (namei -l shows them)"},
    Meaning{ENAMETOOLONG, "File name too long (ENAMETOOLONG)", "give a shorter name or path"},
    Meaning{ENOTDIR, "Not a directory (ENOTDIR): there is a file where a folder should be",
            "move that file away, or correct the path"},
    Meaning{EISDIR, "Is a directory (EISDIR)", "name a file"},
    Meaning{ENOENT, "No such file or directory", ""},
    Meaning{EMFILE, "Too many open files in this process (EMFILE)", "raise the limit: ulimit -n"},
    Meaning{ENFILE, "Too many open files on this machine (ENFILE)", "end other programs, or raise fs.file-max"},
    Meaning{ENOMEM, "Cannot allocate memory (ENOMEM)", "free memory on this machine, or raise the limit: ulimit -v"},
    Meaning{EAGAIN, "Resource temporarily unavailable (EAGAIN)",
            "raise the limits of threads and of memory (ulimit -u, ulimit -v), or end other programs of this user"},
    Meaning{ENOSPC, "No space is left on its file system (ENOSPC)",
            "free some space there, or write to another file system"},
    Meaning{EDQUOT, "The disk quota there is used up (EDQUOT)",
            "delete what is no longer needed, or write to another file system"},
    Meaning{EFBIG, "File too large (EFBIG)", "raise the limit (ulimit -f)"},
    Meaning{EROFS, "Read-only file system (EROFS)", "write elsewhere, or have it mounted for writing"},
    Meaning{ETXTBSY, "Text file busy (ETXTBSY): it is a program that runs", "end that program first"},
    Meaning{EPIPE, "Broken pipe (EPIPE): no process reads it any more", ""},
};

const Meaning* find(int number) {
  const auto* const found =
      std::find_if(meanings.begin(), meanings.end(), [&](const Meaning& one) { return one.number == number; });
  return found == meanings.end() ? nullptr : found;
}

// There is no file below a file.
bool is_absent(int number) { return number == ENOENT || number == ENOTDIR; }

std::vector<fs::path> read_entries(const fs::path& folder, std::error_code& failed) {
  std::vector<fs::path> out;
  for (fs::directory_iterator at(folder, failed); !failed && at != fs::end(at); at.increment(failed))
    out.push_back(at->path());
  std::sort(out.begin(), out.end());
  return out;
}

}  // namespace

std::string meaning_of(int error_number) {
  if (const auto* known = find(error_number)) return known->what;
  return std::string(std::strerror(error_number)) + " (errno " +  // NOLINT(concurrency-mt-unsafe): the number is known
         std::to_string(error_number) + ")";
}

std::string fix_for(int error_number) {
  const auto* known = find(error_number);
  if (!known) return "";
  std::string limits;
  if (error_number == EMFILE) limits = limit_text(RLIMIT_NOFILE);
  if (error_number == EAGAIN) limits = limit_text(RLIMIT_NPROC);
  if (error_number == EAGAIN || error_number == ENOMEM) limits += limit_text(RLIMIT_AS);
  return limits + known->fix;
}

std::string limit_text(decltype(RLIMIT_AS) limit) {
  rlimit set{};
  if (::getrlimit(limit, &set) != 0 || set.rlim_cur == RLIM_INFINITY) return {};
  switch (limit) {
    case RLIMIT_AS:
      return "ulimit -v is " + std::to_string(set.rlim_cur / 1024) + " KiB here: ";
    case RLIMIT_NPROC:
      return "ulimit -u is " + std::to_string(set.rlim_cur) + " here: ";
    case RLIMIT_NOFILE:
      return "ulimit -n is " + std::to_string(set.rlim_cur) + " here: ";
    default:
      return {};
  }
}

FileError::FileError(const fs::path& path, std::string_view verb, int error_number)
    : Error("cannot " + std::string(verb) + " it: " + meaning_of(error_number),
            error_number == ENOENT && verb == "write" ? "make its folder first, or name another file"
                                                      : fix_for(error_number),
            path.string()),
      number_(error_number) {}
FileError::~FileError() = default;
bool FileError::absent() const { return is_absent(number_); }

PathKind kind_of(const fs::path& path) {
  struct stat info {};
  if (::stat(path.c_str(), &info) == 0) {
    if (S_ISDIR(info.st_mode)) return PathKind::folder;
    return S_ISREG(info.st_mode) ? PathKind::file : PathKind::other;
  }
  const int reason = errno;
  if (is_absent(reason)) return PathKind::absent;
  throw FileError(path, "look at", reason);
}

std::vector<fs::path> entries_of(const fs::path& folder) {
  std::error_code failed;
  auto out = read_entries(folder, failed);
  if (failed) throw FileError(folder, "list", failed.value());
  return out;
}

std::vector<fs::path> entries_if_there(const fs::path& folder) {
  std::error_code failed;
  auto out = read_entries(folder, failed);
  // A file instead of the folder (ENOTDIR) is a fault; kind_of() only calls paths below a file absent.
  if (failed && failed.value() != ENOENT) throw FileError(folder, "list", failed.value());
  return out;
}

}  // namespace capstan
