#include "plugin/loader.h"

#include <capstan/base/paths.h>
#include <capstan/base/printable.h>
#include <capstan/base/text.h>
#include <capstan/plugin/descriptor.h>
#include <link.h>
#include <unistd.h>
#include "plugin/guard.h"

#include <algorithm>
#include <array>
#include <boost/core/demangle.hpp>
#include <boost/dll/runtime_symbol_info.hpp>
#include <boost/dll/shared_library.hpp>
#include <csignal>
#include <deque>
#include <map>
#include <mutex>
#include <set>

#include "config/plugin_table.h"
#include "plugin/abi.h"
#include "plugin/engine.h"

namespace capstan::plugin {
namespace {

using Entry = const CapstanPluginDescriptor*();
constexpr const char* entry_symbol = "capstan_plugin";

std::string between(const std::string& text, const std::string& before, const std::string& after) {
  const auto begin = text.find(before);
  if (begin == std::string::npos) return {};
  const auto end = text.find(after, begin + before.size());
  return text.substr(begin + before.size(), end == std::string::npos ? end : end - begin - before.size());
}

boost::dll::shared_library open(const std::filesystem::path& file) {
  using boost::dll::load_mode::rtld_local;
  using boost::dll::load_mode::rtld_now;
  try {
    return boost::dll::shared_library(boost::filesystem::path(file.string()), rtld_now | rtld_local);
  } catch (const std::exception& error) {
    throw open_error(file.string(), error.what());
  }
}

using TorchFiles = std::map<std::string, std::set<std::string>>;

int note_torch_file(dl_phdr_info* info, std::size_t, void* out) {
  std::error_code ignored;
  const std::filesystem::path path(info->dlpi_name);
  const auto name = path.filename().string();
  for (const char* part : {"libtorch_cpu", "libc10"}) {
    // Wheels may add a hash ("libc10-1a2b.so"); libc10_cuda.so is another library.
    const auto rest = name.rfind(part, 0) == 0 ? name.substr(std::string_view(part).size()) : std::string();
    if (rest.empty() || (rest[0] != '.' && rest[0] != '-')) continue;
    const auto real = std::filesystem::canonical(path, ignored);
    (*static_cast<TorchFiles*>(out))[part].insert(ignored ? path.string() : real.string());
  }
  return 0;
}

// A file that was opened, and the files of LibTorch that it should not have brought along: a second time, or before the
// engine brings its own.
struct Opened {
  std::string file;
  boost::dll::shared_library library;
  std::vector<std::string> doubled;
  std::vector<std::string> early;
};

struct OpenedFiles {
  std::mutex mutex;
  std::deque<Opened> all;
};

// A plugin's code is never unloaded: its objects, type names, and LibTorch registrations may be anywhere until
// the process ends. So the list is never destroyed either; it stays reachable, so leak checkers do not report it. The
// lock is for in-process ranks, where each thread has its own host.
OpenedFiles& opened_files() {
  static auto& files = *new OpenedFiles;
  return files;
}

TorchFiles torch_files() {
  TorchFiles files;
  dl_iterate_phdr(note_torch_file, &files);
  return files;
}

std::vector<std::string> all_torch_files() {
  std::vector<std::string> out;
  for (const auto& [name, paths] : torch_files()) out.insert(out.end(), paths.begin(), paths.end());
  return out;
}

const Opened& open_once(const std::filesystem::path& file) {
  auto& [mutex, kept] = opened_files();
  const std::lock_guard lock(mutex);
  for (const auto& opened : kept) {
    if (opened.file == file) return opened;
  }
  const auto before = doubled_torch_files();
  const bool is_early = !engine_is_there() && all_torch_files().empty();
  const auto library = open(file);
  auto after = doubled_torch_files();
  if (after.size() <= before.size()) after.clear();  // only the file that brings a second LibTorch is to blame
  auto early = is_early ? all_torch_files() : std::vector<std::string>();
  return kept.emplace_back(Opened{file.string(), library, std::move(after), std::move(early)});
}

// While it lives, a crash of this thread is said to be the plugin's: its code runs for the first time, when it is
// opened and when it registers, and nothing else could say whose fault the signal is.
class CrashNamed {
 public:
  explicit CrashNamed(const std::string& file) {
    const auto text = "capstan: error\n" + printable(file) + ": the plugin crashed while it was opened\n" +
                      "    fix: rebuild it with this Capstan's SDK, or take it out of the configuration\n";
    size_ = std::min(text.size(), words_.size());
    std::copy_n(text.begin(), size_, words_.begin());
    struct sigaction action {};
    action.sa_handler = [](int signal) {
      (void)!::write(STDERR_FILENO, words_.data(), size_);
      ::raise(signal);
    };
    action.sa_flags = SA_RESETHAND | SA_NODEFER;
    sigemptyset(&action.sa_mask);
    for (std::size_t i = 0; i < signals.size(); ++i) sigaction(signals[i], &action, &before_[i]);
  }
  ~CrashNamed() {
    for (std::size_t i = 0; i < signals.size(); ++i) sigaction(signals[i], &before_[i], nullptr);
  }
  CrashNamed(const CrashNamed&) = delete;
  CrashNamed& operator=(const CrashNamed&) = delete;

 private:
  static constexpr std::array signals{SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT};
  static inline std::array<char, 4096> words_{};  // a handler may not allocate
  static inline std::size_t size_ = 0;
  std::array<struct sigaction, signals.size()> before_{};
};

Error brings_early(const Opened& opened) {
  return Error(
      cat("brings LibTorch into the process, though its note says that it needs none: ", join(opened.early, " and ")),
      "say ENGINE in capstan_add_plugin(), and link no LibTorch but the one that Capstan was built with", opened.file);
}

const Opened& open_checked(const std::filesystem::path& file) {
  const auto& opened = open_once(file);
  if (!opened.early.empty()) throw brings_early(opened);
  if (opened.doubled.empty()) return opened;
  throw Error(cat("brings a second LibTorch into the process: ", join(opened.doubled, " and ")),
              "link the plugin with the LibTorch that Capstan was built with, and with no other", file.string());
}

void check_fields(const CapstanPluginDescriptor& descriptor, const std::string& file) {
  if (descriptor.struct_size != sizeof(CapstanPluginDescriptor)) {
    throw Error(cat("has a descriptor of ", descriptor.struct_size, " bytes; this Capstan's has ",
                    sizeof(CapstanPluginDescriptor)),
                "rebuild the plugin against this Capstan's SDK", file);
  }
  if (!descriptor.kind || !descriptor.name || !descriptor.version || !descriptor.summary ||
      !descriptor.register_types) {
    throw Error("has a descriptor with an empty field", "use the CAPSTAN_… macros", file);
  }
}

const CapstanPluginDescriptor& descriptor_of(const boost::dll::shared_library& library, const std::string& file) {
  if (!library.has(entry_symbol)) {
    throw Error(cat("has no entry: it does not export ", entry_symbol, "()"),
                "add one CAPSTAN_… line, such as CAPSTAN_MONITOR, to a source file", file);
  }
  const auto* descriptor = library.get<Entry>(entry_symbol)();
  if (!descriptor) throw Error(cat(entry_symbol, "() returns no descriptor"), "use the CAPSTAN_… macros", file);
  check_fields(*descriptor, file);
  return *descriptor;
}

void check_names(const CapstanPluginDescriptor& descriptor, const std::filesystem::path& file,
                 const std::string& kind) {
  if (!kind.empty() && kind != descriptor.kind) {
    throw Error(cat("is a ", descriptor.kind, " plugin, and a ", kind, " plugin is needed here"),
                cat("files of a kind lie in a folder of its name: ", descriptor.kind, "/", file.filename().string()),
                file.string());
  }
  if (file.stem() != descriptor.name) {
    throw Error(cat("calls itself '", descriptor.name, "'; a plugin's name is that of its file"),
                cat("name the file ", descriptor.name, ".so, or change the name in its CAPSTAN_… line"), file.string());
  }
}

void check_schema(const Registration& registration) {
  const auto fail = [&](const std::string& key, const char* why) {
    throw Error(cat("declares the option '", key, "'", why), "rename it", registration.file);
  };
  std::set<std::string> keys;
  for (const auto& spec : registration.schema) {
    std::vector<std::string> names = spec.spellings;
    names.push_back(spec.key);
    for (const auto& name : names) {
      if (!keys.insert(name).second) fail(name, " twice");
      for (const auto& own : config::host_options(registration.kind)) {
        if (own.key == name) fail(name, ", which the host reads itself in such a table");
      }
    }
  }
}

Registration register_types(const CapstanPluginDescriptor& descriptor, const std::string& file) {
  Registration about;
  about.kind = descriptor.kind;
  about.name = descriptor.name;
  about.version = descriptor.version;
  about.summary = descriptor.summary;
  about.file = file;
  Registry registry;
  registry.set_current(about);
  try {
    guard(about, "registration", [&] { descriptor.register_types(registry); });
  } catch (const Error& error) {
    if (error.diagnostics().front().where == file) throw;
    throw Error(cat("failed to register: ", error.what()), "", file);
  } catch (const std::exception& bug) {
    throw Error(cat("failed to register: ", bug.what()), "this is a bug of the plugin", file);
  } catch (...) {
    throw Error("failed to register: it threw something that is no exception", "this is a bug of the plugin", file);
  }
  if (registry.all().empty() || !registry.all().front().make) {
    throw Error("registers nothing", "call capstan::plugin::add_type once in its registration function", file);
  }
  auto out = registry.all().front();
  check_schema(out);
  // So that callers cannot forget the guard.
  out.make = [about, make = out.make](const config::Section& section, Diagnostics& diagnostics) {
    return guard(about, "construction", [&] { return make(section, diagnostics); });
  };
  return out;
}

}  // namespace

Registration registration_of(const CapstanPluginDescriptor& descriptor, const std::filesystem::path& file,
                             const std::string& kind) {
  check_fields(descriptor, file.string());
  if (!kind.empty()) check_names(descriptor, file, kind);
  return register_types(descriptor, file.string());
}

// Rewords the dynamic linker's message (dlerror); Boost puts "dlerror system message: " before it and "): " after it.
// Forms: "libx.so: cannot open shared object file: No such file or directory", "/p/a.so: undefined symbol: _Zfoo", and
// others, which are passed on.
Error open_error(const std::string& file, const std::string& message) {
  const auto dlerror_text = between(message, "dlerror system message: ", "): ");
  const auto& said = dlerror_text.empty() ? message : dlerror_text;
  const auto missing_at = said.find(": cannot open shared object file");
  if (missing_at != std::string::npos) {
    const auto start = said.rfind(' ', missing_at);
    const auto library = said.substr(start == std::string::npos ? 0 : start + 1, missing_at - start - 1);
    const bool of_torch = library.starts_with("libtorch") || library.starts_with("libc10");
    return Error(
        cat("needs the shared library ", library, ", which is not found"),
        cat(of_torch ? "say where torch is: use-torch FOLDER in an unpacked archive, capstan-use-torch FOLDER of a "
                       "Debian package; or add its lib folder to LD_LIBRARY_PATH"
                     : "install it, or add its folder to LD_LIBRARY_PATH",
            "; `ldd ", file, "` lists all that it needs"),
        file);
  }
  if (const auto symbol = between(said, "undefined symbol: ", " "); !symbol.empty()) {
    return Error(cat("needs ", boost::core::demangle(symbol.c_str()), ", which no loaded library has"),
                 "rebuild the plugin, with -Wl,-z,defs to see this when it is linked", file);
  }
  return Error("cannot be loaded: " + said, "", file);
}

void refuse_torch_before_engine() {
  const auto files = all_torch_files();
  if (files.empty()) return;
  auto& [mutex, kept] = opened_files();
  const std::lock_guard lock(mutex);
  for (const auto& opened : kept) {
    if (!opened.early.empty()) throw brings_early(opened);
  }
  throw Error(cat("LibTorch is in the process before Capstan has opened it: ", join(files, " and ")),
              "unset LD_PRELOAD");
}

std::vector<std::string> doubled_torch_files() {
  std::vector<std::string> out;
  for (const auto& [name, paths] : torch_files()) {
    if (paths.size() > 1) out.insert(out.end(), paths.begin(), paths.end());
  }
  return out;
}

std::filesystem::path own_library() { return std::filesystem::canonical(boost::dll::this_line_location().string()); }

Registration load_plugin_file(const std::filesystem::path& file, const std::string& kind, bool uses_gpu) {
  const auto name = file.string();
  const auto gpu_module = gpu_module_of(file);
  const bool has_gpu_module = is_there(gpu_module);
  const bool needs_engine = check_abi(file);
  if (has_gpu_module) check_gpu_module_abi(gpu_module, gpu_module_of(own_library()));
  static std::mutex one_at_a_time;  // in-process ranks load in threads of their own, and signals are the process's
  const std::lock_guard lock(one_at_a_time);
  if (needs_engine) (void)open_engine();
  const CrashNamed named(name);
  const auto& opened = open_checked(file);
  if (has_gpu_module && uses_gpu) open_checked(gpu_module);
  const auto& descriptor = descriptor_of(opened.library, name);
  check_names(descriptor, file, kind);
  return register_types(descriptor, name);
}

}  // namespace capstan::plugin
