#pragma once
#include <capstan/base/error.h>
#include <capstan/base/export.h>

#include <string>
#include <string_view>
#include <vector>

CAPSTAN_BEGIN_NAMESPACE
namespace config {

/// What Capstan does with one key of a file that another program writes.
struct FileKey {
  enum class Use {
    used,     ///< Capstan computes by it
    neutral,  ///< it changes nothing that Capstan computes, whatever it says; `words` gives the reason
    only,     ///< it may say what `allowed` lists, which is what Capstan computes; anything else is refused
    refused   ///< a file that has it is refused; `words` is what to do
  };
  std::string name;  ///< as the file has it; inside of an object with a dot ("rope_scaling.factor")
  Use use = Use::used;
  std::string words = {};                 ///< what it is used for, why it changes nothing, or what to do instead
  std::vector<std::string> allowed = {};  ///< for `only`: JSON texts ("false", "0", "\"none\"")
};

/// All keys of one kind of file. `capstan reference --files` prints these tables (docs/other-files.md).
struct FileKeys {
  enum class Unknown { refused, named };  ///< named: newer programs write harmless ones, so a warning names them
  std::string file;                       ///< "adapter_config.json"
  std::string about;                      ///< one sentence: the program that writes it, and when
  std::vector<FileKey> keys;
  Unknown unknown = Unknown::refused;

  /// Null where the table does not have it.
  const FileKey* find(std::string_view name) const;
};

/// Holds every key of the JSON object `text` against the table. A key whose value is null counts as absent; an object's
/// own keys are judged where the table has keys inside of it. Adds a fault, with the value, for each key that is
/// refused. Returns the unknown keys of a table that has them named, for one warning. A text that is no JSON object
/// gives nothing: whoever reads it says so.
std::vector<std::string> judge_keys(const FileKeys& table, std::string_view text, const std::string& where,
                                    Diagnostics& faults);

}  // namespace config
CAPSTAN_END_NAMESPACE
