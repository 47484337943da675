#include <capstan/base/error.h>
#include <capstan/base/files.h>
#include <capstan/base/paths.h>
#include <capstan/base/text.h>
#include <capstan/tokenizer/open.h>
#include "plugin/guard.h"

#include <utility>

#include "tokenizer/byte_tokenizer.h"

namespace capstan::tokenizer {
namespace {

namespace fs = std::filesystem;

// Calls into a plugin, whose name is added to what it throws. Where the user named a file instead, an Error is about
// that file and stays as it is.
template <class F>
auto call(const std::string& plugin, bool by_file, const char* phase, const F& fn) {
  if (!by_file) return plugin::guard(plugin, phase, fn);
  try {
    return fn();
  } catch (const Error&) {
    throw;
  } catch (...) {
    plugin::rethrow_with_context(cat("plugin '", plugin, "' was in phase ", phase));
  }
}

class GuardedTokenizer final : public Tokenizer {
 private:
  template <class Method, class... Arguments>
  auto guarded(const char* phase, const Method& method, const Arguments&... arguments) const {
    return call(plugin_, by_file_, phase, [&] { return ((*own_).*method)(arguments...); });
  }

 public:
  GuardedTokenizer(std::string plugin, bool by_file, std::shared_ptr<const Tokenizer> own)
      : plugin_(std::move(plugin)), by_file_(by_file), own_(std::move(own)) {}

  std::string name() const override { return guarded("name", &Tokenizer::name); }
  std::int64_t vocab_size() const override { return guarded("vocab_size", &Tokenizer::vocab_size); }
  std::vector<std::int64_t> encode(std::string_view text) const override {
    return guarded("encode", &Tokenizer::encode, text);
  }
  Encoded encode_with_ranges(std::string_view text) const override {
    return guarded("encode_with_ranges", &Tokenizer::encode_with_ranges, text);
  }
  std::vector<std::int64_t> encode_ordinary(std::string_view text) const override {
    return guarded("encode_ordinary", &Tokenizer::encode_ordinary, text);
  }
  bool is_special(std::int64_t id) const override { return guarded("is_special", &Tokenizer::is_special, id); }
  std::string decode(const std::vector<std::int64_t>& ids) const override {
    return guarded("decode", &Tokenizer::decode, ids);
  }
  std::vector<std::int64_t> prefix_ids() const override { return guarded("prefix_ids", &Tokenizer::prefix_ids); }
  std::vector<std::int64_t> suffix_ids() const override { return guarded("suffix_ids", &Tokenizer::suffix_ids); }
  std::int64_t end_id() const override { return guarded("end_id", &Tokenizer::end_id); }
  bool is_end(std::int64_t id) const override { return guarded("is_end", &Tokenizer::is_end, id); }
  std::int64_t pad_id() const override { return guarded("pad_id", &Tokenizer::pad_id); }

 private:
  std::string plugin_;
  bool by_file_;
  std::shared_ptr<const Tokenizer> own_;
};

// A plugin, and the file that it would open.
struct Candidate {
  plugin::Noted plugin;
  fs::path file;
};

std::string listed(const std::vector<Candidate>& candidates, bool libraries) {
  std::vector<std::string> out;
  for (const auto& one : candidates) out.push_back(libraries ? one.plugin.file : one.file.filename().string());
  return join(out, libraries ? " and " : " or ");
}

// Those that open the file, or one in the folder, by its name; if that is none, all that open files.
std::vector<Candidate> candidates_for(const fs::path& path, const plugin::Host& host) {
  const bool is_in_folder = is_folder(path);
  std::vector<Candidate> all;
  std::vector<Candidate> meant;
  std::string problems;
  for (const auto& noted : host.tokenizers()) {
    if (!noted.problem.empty()) problems += "\n      " + noted.problem;
    if (!noted.problem.empty()) continue;
    const auto names = split(noted.line, ' ');
    all.push_back({noted, is_in_folder ? path / names.front() : path});
    for (const auto& name : names) {
      if (is_in_folder ? !is_there(path / name) : path.filename() != name) continue;
      meant.push_back({noted, is_in_folder ? path / name : path});
      break;
    }
  }
  if (!all.empty()) return meant.empty() ? all : meant;
  throw Error(cat("no installed tokenizer plugin opens ", path.string(), problems),
              cat("install those of ", (plugin::Host::builtin_folder() / "tokenizer").string(),
                  R"(, or take the tokenizer "byte")"));
}

Opened open_path(const fs::path& path, const std::string& model_folder, plugin::Host& host) {
  const auto candidates = candidates_for(path, host);
  const auto& [noted, file] = candidates.front();
  if (candidates.size() > 1 && !is_there(file)) {
    throw Error(cat("there is no ", listed(candidates, false), " in ", path.string()),
                R"(name another folder, a file, or "byte")");
  }
  if (candidates.size() > 1) {
    throw Error(cat(listed(candidates, true), " all open ", path.string()),
                cat("name one in place of data.tokenizer: [tokenizer] plugin = \"", noted.name,
                    "\"; or name its file, or take the others out of CAPSTAN_PLUGIN_PATH"));
  }
  const auto& about = host.load("tokenizer", noted.name, noted.file);
  Diagnostics faults;
  const auto opener = std::static_pointer_cast<Opener>(about.make({}, faults));
  faults.throw_if_any();
  return open_by(about.name, about.file, opener, {model_folder, file});
}

}  // namespace

Opener::~Opener() = default;
std::vector<fs::path> Opener::files(const TokenizerRequest&) const { return {}; }

bool Opener::save(const TokenizerRequest& request, const fs::path& folder) const {
  const auto all = files(request);
  for (const auto& file : all) copy_over(file, folder / file.filename());
  return !all.empty();
}

std::vector<fs::path> Opened::files() const {
  if (!opener) return {};
  return plugin::guard(plugin, "files", [&] { return opener->files(request); });
}

bool Opened::save(const fs::path& folder) const {
  return opener && plugin::guard(plugin, "save", [&] { return opener->save(request, folder); });
}

std::vector<std::string> file_names(const plugin::Host& host) {
  std::vector<std::string> names;
  for (const auto& noted : host.tokenizers()) {
    const auto own = split(noted.line, ' ');
    if (noted.problem.empty()) names.insert(names.end(), own.begin(), own.end());
  }
  return names;
}

Opened open_by(const std::string& plugin, const std::string& library, std::shared_ptr<const Opener> opener,
               TokenizerRequest request) {
  const bool by_file = !request.file.empty();
  auto own = call(plugin, by_file, "open", [&] { return opener->open(request); });
  if (!own) throw Error(cat("tokenizer plugin '", plugin, "' opened no tokenizer"), "return one from open()");
  auto object = std::make_shared<const GuardedTokenizer>(plugin, by_file, std::move(own));
  Opened opened{"auto", std::move(object), std::move(opener), std::move(request), plugin, library};
  // One that a configuration names is asked for its files now: what it throws is said before anything is allocated.
  if (!by_file) (void)opened.files();
  return opened;
}

Opened open_named(const std::string& name, const std::string& model_folder, plugin::Host& host) {
  if (name == "byte" || (name == "auto" && model_folder.empty()))
    return {name, std::make_shared<const ByteTokenizer>()};
  if (name == "auto") return open_path(model_folder, model_folder, host);
  if (is_there(name)) {
    auto opened = open_path(name, model_folder, host);
    opened.name = name;
    return opened;
  }
  if (name.find('/') != std::string::npos) {
    const auto files = file_names(host);
    throw Error(cat("there is no tokenizer ", name),
                cat("name a ", files.empty() ? "file" : join(files, " or "), ", or a folder that holds one"));
  }
  throw Error(cat("there is no tokenizer '", name, "'"), suggestion(name, {"auto", "byte"}));
}

}  // namespace capstan::tokenizer
