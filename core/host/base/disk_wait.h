#pragma once
#include <capstan/base/export.h>

#include <filesystem>
#include <optional>
#include <string>

CAPSTAN_BEGIN_NAMESPACE

/// While one exists, its thread reads or writes a file, which may take as long as the disk likes. Ranks tell each other
/// so, since a rank that waits for such a rank must not take it for one that hangs. No collective is called meanwhile.
/// Cheap enough for each line of a log.
class DiskWait {
 public:
  /// `verb`: "reading", "writing", a literal. The path outlives this object.
  DiskWait(const char* verb, const std::filesystem::path& path);
  ~DiskWait();
  DiskWait(const DiskWait&) = delete;
  DiskWait& operator=(const DiskWait&) = delete;

  /// What this process has been doing for the longest time of all that it does at a disk now: "writing /x/run.log".
  static std::optional<std::string> oldest();

 private:
  const char* verb_;
  const std::filesystem::path& path_;
};

CAPSTAN_END_NAMESPACE
