#pragma once
#include <capstan/base/export.h>

#include <filesystem>
#include <functional>
#include <optional>
#include <string>

CAPSTAN_BEGIN_NAMESPACE
namespace data {

/// A file that is made of other files, and that can be made again at any time: a table's rows as text, conversations as
/// a template writes them. All ranks of a node ask for it, and one of them makes it for all.
struct DerivedFile {
  std::filesystem::path folder;  ///< made where it does not exist
  std::string name;              ///< "train.jsonl"; the file is called train-0123456789abcdef.jsonl, after its key
  std::string key;     ///< all that its bytes depend on, such as content_key() of each file that it is made of
  std::string advice;  ///< what to do where the folder cannot be written to: "set data.derived to another folder"

  std::filesystem::path path() const;
};

/// Writes the whole file under this name, which may exist. Throws Error where it cannot.
using MakeFile = std::function<void(const std::filesystem::path& unfinished)>;

/// The file's path, after it has been made if it was not there. Whoever comes first locks "<path>.lock", makes the file
/// under another name and renames it when it is on the disk: it is whole or absent, also after a crash. The others
/// wait, and get the same Error if `make` fails while they do. Nodes that share the folder and no locks make it once
/// each. Throws Error with the advice where the folder cannot be written to. Blocks for as long as `make` takes.
/// Thread-safe.
std::filesystem::path derive(const DerivedFile& file, const MakeFile& make);

/// What a file counts as in a key: its size and its bytes' XXH64, whatever its name and time. Throws FileError. Reads
/// the whole file.
std::string content_key(const std::filesystem::path& file);

/// Looks up an environment variable.
using Environment = std::function<std::optional<std::string>(const std::string& name)>;
/// This process's own, which a data plugin is not told otherwise.
Environment process_environment();

/// The folder in which this user's derived files are kept where no option says otherwise: CAPSTAN_CACHE/derived, else
/// XDG_CACHE_HOME/capstan, else ~/.cache/capstan; empty where none of these variables is set.
std::filesystem::path derived_folder(const Environment& environment);

}  // namespace data
CAPSTAN_END_NAMESPACE
