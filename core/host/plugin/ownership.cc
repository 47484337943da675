#include "plugin/ownership.h"

#include <capstan/base/error.h>
#include <capstan/base/paths.h>
#include <capstan/base/text.h>
#include <grp.h>
#include <pwd.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <string>
#include <vector>

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

namespace fs = std::filesystem;

// Who else could have written the file, or what is in the folder; empty: no one else.
std::string writers_of(const struct stat& info, bool is_near) {
  constexpr uid_t unknown =
      65534;  // an owner whom this system cannot name, as a container cannot name users of its host
  const auto owner = info.st_uid;
  const bool is_sticky = S_ISDIR(info.st_mode) && (info.st_mode & S_ISVTX) != 0;  // there others' files are safe
  const bool owner_counts = owner != unknown || (is_near && !is_sticky);
  if (owner_counts && owner != ::geteuid() && owner != 0 && owner != facts_of(own_library()).st_uid)
    return cat("user ", owner, ", to whom it belongs");
  if (is_sticky) return {};
  if ((info.st_mode & S_IWOTH) != 0) return "every user of this machine";
  if ((info.st_mode & S_IWGRP) != 0 && !is_own_group(info.st_gid)) return cat("every member of group ", info.st_gid);
  return {};
}

// The folders above a file, the nearest first.
std::vector<fs::path> folders_above(const fs::path& file) {
  std::vector<fs::path> all;
  for (auto at = file; at.has_relative_path(); at = at.parent_path()) all.push_back(at.parent_path());
  return all;
}

// Who could write to one of these could have replaced Capstan itself.
bool holds_capstan(const fs::path& folder) {
  const auto own = folders_above(own_library());
  return std::find(own.begin(), own.end(), folder) != own.end();
}

void refuse(const fs::path& file, const fs::path& path, const std::string& writers) {
  const auto what = path == file                 ? std::string("this plugin")
                    : path == file.parent_path() ? std::string("the folder of this plugin")
                                                 : cat("the folder ", path.string(), ", which leads to this plugin,");
  throw Error(cat(what, " may be written by ", writers, ": its code would run as you"),
              cat("chmod go-w ", path.string(),
                  ", or copy the plugin to a folder of your own; a site that trusts its writers exports "
                  "CAPSTAN_TRUST_PLUGINS=1"),
              file.string());
}

void judge(const fs::path& file, const fs::path& path) {
  const bool is_near = path == file || path == file.parent_path();
  const auto writers = writers_of(facts_of(path), is_near);
  if (!writers.empty() && (is_near || !holds_capstan(path))) refuse(file, path, writers);
}

}  // namespace

// Who may write to any folder above can put another one in the place of what is in it. Links are followed: the folders
// on both ways count, as the file is named and as it lies.
void refuse_writable(const fs::path& file) {
  judge(file, file);
  for (const auto& folder : folders_above(fs::absolute(file))) judge(file, folder);
  for (const auto& folder : folders_above(fs::canonical(file))) judge(file, folder);
}

}  // namespace capstan::plugin
