#include <capstan/plugin/host.h>

#include <capstan/base/paths.h>
#include <capstan/base/text.h>

#include <algorithm>
#include <map>
#include <optional>

#include "plugin/abi.h"
#include "plugin/loader.h"
#include "plugin/ownership.h"

namespace capstan::plugin {
namespace fs = std::filesystem;
namespace {

// What cannot be looked at is none: opening it says why.
bool leads_to_folder(const fs::path& path) {
  try {
    return is_folder(path);
  } catch (const FileError&) {
    return false;
  }
}

// The files *.so of a folder, by name. GPU modules (<name>_cuda.so) belong to the plugin next to them.
std::vector<fs::path> libraries(const fs::path& folder) {
  std::vector<fs::path> out;
  for (const auto& path : entries_if_there(folder)) {
    const auto stem = path.stem().string();
    const bool is_cuda = stem.size() > 5 && stem.compare(stem.size() - 5, 5, "_cuda") == 0;
    if (path.extension() == ".so" && !is_cuda && !leads_to_folder(path)) out.push_back(path);
  }
  return out;
}

std::vector<fs::path> subfolders(const fs::path& folder) {
  auto out = entries_if_there(folder);
  std::erase_if(out, [](const fs::path& path) { return !leads_to_folder(path); });
  return out;
}

bool is_name(const std::string& name) {
  return !name.empty() && std::all_of(name.begin(), name.end(), [](unsigned char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' || c == '-';
  });
}

std::vector<fs::path> readable_subfolders(const fs::path& folder) {
  try {
    return subfolders(folder);
  } catch (const FileError&) {
    return {};  // its own libraries cannot be listed either, which is said
  }
}

// What a file's notes say; nothing where it has none that is asked for. `is_of_kind`: it lies where this kind does.
std::optional<Noted> noted_file(const fs::path& file, const std::string& kind, bool is_of_kind, bool trusts_writers) {
  const bool is_command = kind == "command";
  Noted noted{file.stem().string(), file.string(), {}, {}};
  try {
    noted.line = read_note(file, is_command ? Note::command_line : Note::tokenizer_files);
    if (noted.line.empty() && !(is_command && is_of_kind)) return {};
    if (!trusts_writers) refuse_writable(file);
    check_abi(file);
    if (noted.line.empty()) noted.problem = noted.file + ": is no command: it has no line for --help";
  } catch (const Error& error) {
    if (!is_of_kind) return {};  // nothing says that it is one
    noted.problem = error.what();
  }
  return noted;
}

}  // namespace

Host::Host(const std::vector<fs::path>& folders, bool uses_gpu, bool trusts_writers)
    : uses_gpu_(uses_gpu), trusts_writers_(trusts_writers) {
  for (const auto& folder : folders) folders_.push_back(fs::absolute(folder).lexically_normal());
}

fs::path Host::builtin_folder() { return own_library().parent_path() / "capstan" / "plugins"; }

std::vector<fs::path> Host::candidates(const std::string& kind, const std::string& name) const {
  std::vector<fs::path> out;
  for (const auto& folder : folders_) {
    out.push_back(folder / kind / (name + ".so"));
    out.push_back(folder / (name + ".so"));
  }
  out.push_back(builtin_folder() / kind / (name + ".so"));
  return out;
}

std::vector<Host::Place> Host::files() const {
  std::vector<Place> out;
  const auto add = [&](const fs::path& folder, const std::string& kind) {
    try {
      for (const auto& file : libraries(folder)) out.push_back({file, kind});
    } catch (const FileError&) {
      out.push_back({folder, kind});  // opening it says why
    }
  };
  for (const auto& folder : folders_) {
    if (leads_to_folder(folder)) {
      for (const auto& kind : readable_subfolders(folder)) add(kind, kind.filename().string());
    }
    add(folder, "");
  }
  for (const auto& kind : subfolders(builtin_folder())) add(kind, kind.filename().string());
  return out;
}

void Host::fail_not_found(const std::string& kind, const std::string& name, const std::vector<fs::path>& tried) const {
  std::vector<std::string> names;
  for (const auto& place : files()) {
    if (place.kind == kind || place.kind.empty()) names.push_back(place.file.stem().string());
  }
  std::erase(names, name);  // one that another folder has: a path that leads nowhere was given
  std::string what = cat("there is no ", kind, " plugin '", name, "'; looked for");
  for (const auto& file : tried) what += "\n      " + file.string();
  auto fix = suggestion(name, names);
  const auto build = builtin_folder().parent_path().parent_path().parent_path();
  const bool in_tree = is_there(build / "build.ninja");  // where perhaps only a part was built
  const auto make = in_tree ? cat("`ninja -C ", build.string(), " installable` builds all of Capstan's own; ") : "";
  if (fix.empty())
    fix = cat(make, "build it, or name the folder that holds ", kind, "/", name, ".so in CAPSTAN_PLUGIN_PATH");
  throw Error(what, fix);
}

const Registration& Host::load_file(const fs::path& file, const std::string& kind) {
  if (!trusts_writers_) refuse_writable(file);
  registry_.add(load_plugin_file(file, kind, uses_gpu_));
  return registry_.all().back();
}

const Registration& Host::load_file(const fs::path& file) {
  const auto given = fs::absolute(file).lexically_normal();
  if (!is_there(given))
    throw Error("the plugin's file does not exist", "build it, or correct the path", given.string());
  return load_file(given, "");
}

const Registration& Host::load(const std::string& kind, const std::string& name, const std::string& path) {
  if (!is_name(name)) {
    throw Error(cat("'", name, "' is no name of a ", kind, " plugin"), "a name has letters, digits, '_' and '-' only");
  }
  // The linker would search its own folders if the name had no folder.
  const auto given = path.empty() ? fs::path() : fs::absolute(path).lexically_normal();
  if (const auto* loaded = registry_.find(kind, name); loaded && (given.empty() || loaded->file == given)) {
    return *loaded;
  }
  const auto tried = given.empty() ? candidates(kind, name) : std::vector<fs::path>{given};
  for (const auto& file : tried) {
    if (!is_there(file)) continue;
    if (file.stem() != name) {
      throw Error(cat("is given as the file of ", kind, " plugin '", name, "', but has another name"),
                  cat("a plugin's name is that of its file: [", kind, ".", file.stem().string(), "]"), file.string());
    }
    return load_file(file, kind);
  }
  fail_not_found(kind, name, tried);
}

std::vector<Noted> Host::noted(const std::string& kind) const {
  std::map<std::string, Noted> found;
  for (const auto& [file, folder] : files()) {
    if (folder != kind && !folder.empty()) continue;
    if (auto noted = noted_file(file, kind, !folder.empty(), trusts_writers_)) found.try_emplace(noted->name, *noted);
  }
  std::vector<Noted> out;
  out.reserve(found.size());
  for (auto& [name, noted] : found) out.push_back(std::move(noted));
  return out;
}

bool Host::has_table(const std::string& command) const {
  if (!is_name(command)) return false;
  if (const auto* loaded = registry_.find("command", command)) return !loaded->schema.empty();
  try {
    for (const auto& file : candidates("command", command)) {
      if (is_there(file)) return !read_note(file, Note::table).empty();
    }
    return false;
  } catch (const Error&) {
    return true;
  }
}

const Registration* Host::loaded_from(const fs::path& file) const {
  const auto& all = registry_.all();
  const auto found = std::find_if(all.begin(), all.end(), [&](const auto& one) { return one.file == file.string(); });
  return found == all.end() ? nullptr : &*found;
}

std::vector<Hint> Host::hints() {
  for (const auto& [file, kind] : files()) {
    try {
      if (!loaded_from(file) && !read_note(file, Note::hints).empty()) load_file(file, kind);
    } catch (const Error&) {  // `capstan plugins` says what is wrong with it
    }
  }
  std::vector<Hint> out;
  for (const auto& one : registry_.all()) out.insert(out.end(), one.hints.begin(), one.hints.end());
  return out;
}

std::vector<Found> Host::discover() & {
  std::vector<Found> out;
  for (const auto& [file, kind] : files()) {
    Found found{kind, file.stem().string(), file.string(), {}, nullptr};
    try {
      const auto* loaded = loaded_from(file);
      found.registration = loaded ? loaded : &load_file(file, kind);
      found.kind = found.registration->kind;
    } catch (const Error& error) {
      found.problem = error.what();
    }
    out.push_back(std::move(found));
  }
  return out;
}

}  // namespace capstan::plugin
