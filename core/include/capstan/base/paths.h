#pragma once
#include <capstan/base/error.h>
#include <capstan/base/export.h>

#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

CAPSTAN_BEGIN_NAMESPACE

/// What the system said when it was asked about a file, in words: where, what that means, what to do.
/// Who takes "cannot be read" for "is not there" loses what is there: absent() tells them apart.
class FileError : public Error {
 public:
  /// "<path>: cannot <verb> it: <meaning>", for an errno.
  FileError(const std::filesystem::path& path, std::string_view verb, int error_number);
  ~FileError() override;
  int error_number() const { return number_; }
  /// The system knows that there is no such file.
  bool absent() const;

 private:
  int number_;
};

/// "permission denied (EACCES)": an errno of a file, in words that say what it means where strerror's do not.
std::string meaning_of(int error_number);
/// What a person can do about it; empty: nobody knows.
std::string fix_for(int error_number);

/// What a path leads to, through symbolic links.
enum class PathKind { absent, file, folder, other };
/// Absent is what the system says is not there, and nothing else: whatever keeps it from looking (permissions, a file
/// system that does not answer, links in a circle) throws FileError.
PathKind kind_of(const std::filesystem::path& path);
inline bool is_there(const std::filesystem::path& path) { return kind_of(path) != PathKind::absent; }
inline bool is_file(const std::filesystem::path& path) { return kind_of(path) == PathKind::file; }
inline bool is_folder(const std::filesystem::path& path) { return kind_of(path) == PathKind::folder; }

/// All that a folder holds, by name. Throws FileError when it cannot be read to its end, or is not there.
std::vector<std::filesystem::path> entries_of(const std::filesystem::path& folder);
/// The same; nothing for a folder that is not there.
std::vector<std::filesystem::path> entries_if_there(const std::filesystem::path& folder);

CAPSTAN_END_NAMESPACE
