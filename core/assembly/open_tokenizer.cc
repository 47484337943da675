#include "assembly/open_tokenizer.h"

#include <capstan/base/paths.h>
#include <capstan/plugin/guard.h>

#include <filesystem>
#include <utility>

#include "config/paths.h"
#include "setup/collect.h"
#include "setup/model_path.h"
#include "tokenizer/tokenizers.h"

namespace capstan::assembly {
namespace {

// A path starts at the folder of the file that names it, a hub id means a folder of its cache; "auto" and "byte" are
// words, and so is what looks like none of these.
std::string tokenizer_name(const config::Options<setup::DataOptions>& options, const setup::HubCache& hub) {
  const auto& name = options->tokenizer;
  if (name == "auto" || name == "byte") return name;
  for (const auto& option : options.resolved()) {
    if (option.spec.key != "tokenizer") continue;
    const auto path = config::absolute_path(name, option.origin);
    const auto folder = setup::find_tokenizer({name, path, option.origin.text(), "data.tokenizer"}, hub);
    if (folder || name.find('/') != std::string::npos || is_there(path)) return folder ? folder->string() : path;
  }
  return name;
}

// A plugin's tokenizer: what it throws names the plugin.
class GuardedTokenizer final : public tokenizer::Tokenizer {
 private:
  template <class Method, class... Arguments>
  auto guarded(const char* phase, const Method& method, const Arguments&... arguments) const {
    return plugin::guard(plugin_, phase, [&] { return ((*own_).*method)(arguments...); });
  }

 public:
  GuardedTokenizer(std::string plugin, std::shared_ptr<const Tokenizer> own)
      : plugin_(std::move(plugin)), own_(std::move(own)) {}

  std::string name() const override { return guarded("name", &Tokenizer::name); }
  std::int64_t vocab_size() const override { return guarded("vocab_size", &Tokenizer::vocab_size); }
  std::vector<std::int64_t> encode(std::string_view text) const override {
    return guarded("encode", &Tokenizer::encode, text);
  }
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
  std::shared_ptr<const Tokenizer> own_;
};

void open_plugin(const Made<tokenizer::Opener>& made, const std::string& model_folder, ChosenTokenizer& chosen) {
  const tokenizer::OpenRequest request{model_folder};
  auto own = plugin::guard(made.name, "open", [&] { return made.object->open(request); });
  if (!own) throw Error(cat("tokenizer plugin '", made.name, "' opened no tokenizer"), "return one from open()");
  chosen.object = std::make_shared<const GuardedTokenizer>(made.name, std::move(own));
  chosen.files = plugin::guard(made.name, "files", [&] { return made.object->files(request); });
}

}  // namespace

std::optional<ChosenTokenizer> open_tokenizer(const setup::Configuration& config, const LoadedPlugins& plugins,
                                              Diagnostics& faults) {
  const auto before = faults.size();
  ChosenTokenizer chosen;
  const auto& options = plugins.data_options;
  setup::collect(
      faults, [&] { chosen.name = tokenizer_name(options, config.request.hub); }, "");
  if (faults.size() != before) return {};
  const auto& folder = plugins.model_options->path;
  const bool is_plugin = !config.document.section("tokenizer").entries.empty();
  const bool of_folder = chosen.name == "auto" && folder;
  // What was refused already: that folder, or the plugin.
  if ((of_folder && !plugins.model) || (is_plugin && !plugins.tokenizer)) return {};
  if (is_plugin) {
    setup::collect(
        faults, [&] { open_plugin(*plugins.tokenizer, folder.value_or(""), chosen); }, plugins.tokenizer->where);
  } else {
    setup::collect(
        faults, [&] { chosen.object = tokenizer::make_tokenizer(chosen.name, folder.value_or("")); },
        of_folder ? plugins.model_options.where(&setup::ModelOptions::path)
                  : options.where(&setup::DataOptions::tokenizer));
  }
  if (faults.size() != before) return {};
  return chosen;
}

}  // namespace capstan::assembly
