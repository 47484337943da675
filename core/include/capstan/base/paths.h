#pragma once
#include <capstan/base/error.h>
#include <capstan/base/export.h>

#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

CAPSTAN_BEGIN_NAMESPACE

/// A file system error in words: where, what it means, what to do. Code that treats "cannot be read" as "does not
/// exist" may overwrite an existing file: absent() tells them apart.
class FileError : public Error {
 public:
  /// "<path>: cannot <verb> it: <meaning>", for an errno.
  FileError(const std::filesystem::path& path, std::string_view verb, int error_number);
  ~FileError() override;
  int error_number() const { return number_; }
  /// The system says that there is no such file.
  bool absent() const;

 private:
  int number_;
};

/// "permission denied (EACCES)": an errno of a file, explained where strerror's text is unclear.
std::string meaning_of(int error_number);
/// What a person can do about it; empty: no advice.
std::string fix_for(int error_number);

/// What a path leads to, through symbolic links.
enum class PathKind { absent, file, folder, other };
/// A path is absent only if the system says that it does not exist: any other failure (permissions, a file system that
/// does not answer, a loop of symbolic links) throws FileError.
PathKind kind_of(const std::filesystem::path& path);
inline bool is_there(const std::filesystem::path& path) { return kind_of(path) != PathKind::absent; }
inline bool is_file(const std::filesystem::path& path) { return kind_of(path) == PathKind::file; }
inline bool is_folder(const std::filesystem::path& path) { return kind_of(path) == PathKind::folder; }

/// All entries of a folder, sorted by name. Throws FileError when it cannot be read to its end, or does not exist.
std::vector<std::filesystem::path> entries_of(const std::filesystem::path& folder);
/// The same; nothing for a folder that does not exist.
std::vector<std::filesystem::path> entries_if_there(const std::filesystem::path& folder);

CAPSTAN_END_NAMESPACE
