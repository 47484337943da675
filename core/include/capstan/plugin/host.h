#pragma once
#include <capstan/base/export.h>
#include <capstan/plugin/registry.h>

#include <filesystem>
#include <string>
#include <utility>
#include <vector>

CAPSTAN_BEGIN_NAMESPACE
namespace plugin {

/// A plugin file that was found.
struct Found {
  std::string kind;  ///< as the file says; from its folder if the file cannot be used, maybe empty
  std::string name;  ///< the file's stem
  std::string file;
  std::string problem;                         ///< why it cannot be used; empty = it can
  const Registration* registration = nullptr;  ///< null when there is a problem
};

/// A file as its notes describe it; nothing of it was opened.
struct Noted {
  std::string name;  ///< the file's stem
  std::string file;
  std::string line;     ///< what `capstan --help` says of a command; the files that a tokenizer opens
  std::string problem;  ///< why it cannot be used; empty = it can, as far as notes tell
};

/// Finds plugins, loads them, and never unloads them. Search order: the path that the configuration
/// gives; each of `folders`, as <folder>/<kind>/<name>.so and <folder>/<name>.so; builtin_folder()/<kind>/<name>.so.
/// Not thread-safe; registrations live as long as the host.
class Host {
 public:
  /// `folders`: those of CAPSTAN_PLUGIN_PATH, in its order. `uses_gpu`: this rank opens the plugins' GPU modules too,
  /// and has opened Capstan's own. `trusts_writers`: load plugins too that others may write (see refuse_writable).
  explicit Host(const std::vector<std::filesystem::path>& folders = {}, bool uses_gpu = false,
                bool trusts_writers = false);

  /// The plugin, loaded at the first call. `path`: its file; empty = search. Throws Error that names the
  /// file and what is wrong with it, or, if none is found, every path tried and the nearest name.
  const Registration& load(const std::string& kind, const std::string& name, const std::string& path = {});

  /// The plugin in a file, whatever its kind. Throws as load() does.
  const Registration& load_file(const std::filesystem::path& file);
  /// A plugin that no file holds: a type of the program itself.
  void add(Registration registration) { registry_.add(std::move(registration)); }

  /// All plugin files in the folders, in search order, loaded as far as they can be.
  std::vector<Found> discover() &;
  std::vector<Found> discover() && = delete;  // what is found points into the host

  /// The commands in the folders, by name; where two have one name, the one that load() takes. Opens nothing.
  std::vector<Noted> commands() const { return noted("command"); }
  /// In the same way the tokenizers that open files by their names.
  std::vector<Noted> tokenizers() const { return noted("tokenizer"); }

  /// Does a command of this name have a table in configurations? Opens nothing. True too for a file whose notes cannot
  /// be read: load() says why.
  bool has_table(const std::string& command) const;

  /// Other programs' words that loaded plugins know, and those whose files say that they have hints, which are
  /// loaded now. A file that cannot be used has none.
  std::vector<Hint> hints();

  const Registry& registry() const { return registry_; }

  /// The folder of Capstan's own plugins: capstan/plugins next to libcapstan.so.
  static std::filesystem::path builtin_folder();

 private:
  struct Place {
    std::filesystem::path file;
    std::string kind;  // empty: not known before the file is read
  };
  std::vector<std::filesystem::path> candidates(const std::string& kind, const std::string& name) const;
  std::vector<Place> files() const;
  std::vector<Noted> noted(const std::string& kind) const;
  [[noreturn]] void fail_not_found(const std::string& kind, const std::string& name,
                                   const std::vector<std::filesystem::path>& tried) const;
  const Registration& load_file(const std::filesystem::path& file, const std::string& kind);
  const Registration* loaded_from(const std::filesystem::path& file) const;

  std::vector<std::filesystem::path> folders_;
  bool uses_gpu_;
  bool trusts_writers_;
  Registry registry_;
};

}  // namespace plugin
CAPSTAN_END_NAMESPACE
