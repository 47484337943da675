#pragma once
#include <string>

#include "import.h"

namespace import_axolotl {

/// One data set of the file, and the table that it becomes.
struct DataSet {
  Import& import;
  std::string path;   ///< "datasets[0]"
  std::string table;  ///< "data" or "data.sources.0"

  std::string key(const std::string& name) const { return path + "." + name; }
  std::string text(const std::string& name) const { return import.text(key(name)); }
  bool has(const std::string& name) const { return import.has(key(name)); }
  /// An option of its table, set by one of its keys.
  void set(const std::string& option, const Value& value, const std::string& name) const {
    import.set(table + "." + option, value, key(name));
  }
  void choose(const std::string& option, const std::string& example, const std::string& why,
              const std::string& name) const {
    import.choose(table + "." + option, example, why, key(name));
  }
};

/// Where its rows are: plugin, file or hub id, split.
void take_place(const DataSet& data);
/// What its rows are: columns, which tokens bear loss, and how they are written.
void take_form(const DataSet& data);
/// Conversations are written by a chat template.
void take_template(const DataSet& data);
/// Alpaca's prompts, in one of axolotl's styles: "instruct", "chat", "chatml", "phi".
void take_alpaca(const DataSet& data, const std::string& style);
/// A prompt of the user's own fields.
void take_fields(const DataSet& data);

/// Is a name one of the hub's data sets, and no file or folder?
bool is_of_hub(const std::string& data_set);

}  // namespace import_axolotl
