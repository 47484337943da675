#include "plugin/ownership.h"

#include <capstan/base/error.h>
#include <capstan/base/paths.h>
#include <capstan/base/text.h>
#include <grp.h>
#include <pwd.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <string>

#include "plugin/loader.h"

namespace capstan::plugin {
namespace {

struct stat facts_of(const std::filesystem::path& path) {
  struct stat info {};
  if (::stat(path.c_str(), &info) != 0) throw FileError(path, "look at", errno);
  return info;
}

// Debian and others give each user a group of his own, which is called as he is.
bool is_own_group(gid_t group) {
  passwd user{};
  ::group found{};
  passwd* user_there = nullptr;
  ::group* found_there = nullptr;
  std::array<char, 4096> user_text{};
  std::array<char, 4096> group_text{};
  (void)::getpwuid_r(::geteuid(), &user, user_text.data(), user_text.size(), &user_there);
  (void)::getgrgid_r(group, &found, group_text.data(), group_text.size(), &found_there);
  return user_there != nullptr && found_there != nullptr && std::string(user.pw_name) == found.gr_name;
}

// Who else could have written it; empty: nobody.
std::string writers_of(const struct stat& info) {
  const auto owner = info.st_uid;
  if (owner != ::geteuid() && owner != 0 && owner != facts_of(own_library()).st_uid)
    return cat("user ", owner, ", to whom it belongs");
  if ((info.st_mode & S_IWOTH) != 0) return "every user of this machine";
  if ((info.st_mode & S_IWGRP) != 0 && !is_own_group(info.st_gid)) return cat("every member of group ", info.st_gid);
  return {};
}

}  // namespace

void refuse_writable(const std::filesystem::path& file) {
  for (const auto& path : {file, file.parent_path()}) {
    const auto info = facts_of(path);
    const bool is_sticky = S_ISDIR(info.st_mode) && (info.st_mode & S_ISVTX) != 0;  // there others' files are safe
    const auto writers = is_sticky ? "" : writers_of(info);
    if (writers.empty()) continue;
    throw Error(cat(path == file ? "this plugin" : "the folder of this plugin", " may be written by ", writers,
                    ": its code would run as you"),
                cat("chmod go-w ", path.string(),
                    ", or copy the plugin to a folder of your own; a site that trusts its writers exports "
                    "CAPSTAN_TRUST_PLUGINS=1"),
                file.string());
  }
}

}  // namespace capstan::plugin
