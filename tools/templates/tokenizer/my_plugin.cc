#include "my_plugin.h"

#include <capstan/base/text.h>

namespace my_plugin_plugin {

using capstan::cat;

void MyPluginOptions::describe(capstan::config::OptionTable<MyPluginOptions>& t) {
  t.add("alphabet", &MyPluginOptions::alphabet).doc("the characters that have tokens, each once, of ASCII");
}

std::vector<std::int64_t> MyPluginCharacters::encode(std::string_view text) const {
  std::vector<std::int64_t> ids;
  for (const char c : text) {
    const auto lower = c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
    const auto place = alphabet_.find(lower);
    ids.push_back(place == std::string::npos ? unknown : first + static_cast<std::int64_t>(place));
  }
  return ids;
}

std::string MyPluginCharacters::decode(const std::vector<std::int64_t>& ids) const {
  std::string text;
  for (const auto id : ids) {
    if (id >= first && id < vocab_size()) {
      text += alphabet_[static_cast<std::size_t>(id - first)];
    } else if (id != pad && id != end) {
      text += "\uFFFD";
    }
  }
  return text;
}

std::shared_ptr<const capstan::tokenizer::Tokenizer> MyPlugin::open(const capstan::tokenizer::TokenizerRequest&) const {
  const auto& alphabet = options_->alphabet;
  for (std::size_t i = 0; i < alphabet.size(); ++i) {
    if (static_cast<unsigned char>(alphabet[i]) >= 0x80 || alphabet.find(alphabet[i], i + 1) != std::string::npos)
      throw capstan::Error(
          cat("tokenizer.alphabet has characters twice, or some that are not of ASCII: \"", alphabet, '"'),
          "write each character once", options_.where(&MyPluginOptions::alphabet));
  }
  return std::make_shared<const MyPluginCharacters>(alphabet);
}

}  // namespace my_plugin_plugin

CAPSTAN_TOKENIZER("my_plugin", "0.1.0", "a token for each character of an alphabet", my_plugin_plugin::MyPlugin,
                  my_plugin_plugin::MyPluginOptions)
