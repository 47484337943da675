#include "peers/secret.h"

#include <capstan/base/error.h>
#include <capstan/base/files.h>
#include <capstan/base/paths.h>
#include <capstan/base/text.h>

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <filesystem>

#include "peers/proof.h"
#include "peers/sockets.h"

namespace capstan::peers {
namespace {

/// Writes a file that only this user may read (0600), complete or not at all. Throws FileError.
void write_private(const std::string& path, const std::string& text) {
  const auto temporary = cat(path, ".", new_secret());
  const auto fail = [&](int reason) {
    ::unlink(temporary.c_str());
    throw FileError(path, "write", reason);
  };
  {
    const Descriptor file(::open(temporary.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600));
    if (file.fd() < 0) throw FileError(path, "write", errno);
    const auto written = ::write(file.fd(), text.data(), text.size());
    if (written != static_cast<ssize_t>(text.size())) fail(written < 0 ? errno : ENOSPC);
  }
  if (std::rename(temporary.c_str(), path.c_str()) != 0) fail(errno);
}

/// Its content; nothing while it does not exist. Throws Error where another user could have written or read it.
std::optional<std::string> read_private(const std::string& path) {
  struct stat info {};
  if (::stat(path.c_str(), &info) != 0) {
    if (errno == ENOENT || errno == ESTALE) return {};
    throw FileError(path, "look at", errno);
  }
  if (info.st_uid != ::geteuid() || (info.st_mode & 077U) != 0) {
    throw Error("others than this user could have written or read it, and it has the secret that lets ranks in",
                "remove it and start again; where the file system keeps no rights, export CAPSTAN_SECRET with the same "
                "long random text on all ranks, as slurm/train.sbatch does",
                path);
  }
  try {
    return read_file(path);
  } catch (const FileError& error) {
    if (error.absent()) return {};  // rank 0 has just removed it
    throw;
  }
}

}  // namespace

std::string make_secret(const launch::Rendezvous& where) {
  if (!where.secret.empty() || where.secret_file.empty()) return where.secret;
  auto secret = new_secret();
  std::error_code shown_by_writing;
  const auto folder = std::filesystem::path(where.secret_file).parent_path();
  if (!folder.empty()) std::filesystem::create_directories(folder, shown_by_writing);
  write_private(where.secret_file, secret);
  return secret;
}

std::optional<std::string> find_secret(const launch::Rendezvous& where) {
  if (!where.secret.empty() || where.secret_file.empty()) return where.secret;
  return read_private(where.secret_file);
}

}  // namespace capstan::peers
