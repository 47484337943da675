#pragma once
#include <capstan/tokenizer.h>

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace my_plugin_plugin {

/// The options of [tokenizer]. Their defaults are here; describe() declares the rest, once.
struct MyPluginOptions {
  std::string alphabet = " abcdefghijklmnopqrstuvwxyz0123456789.,:?";

  static void describe(capstan::config::OptionTable<MyPluginOptions>& t);
};

/// An example to replace: a token for each character of an alphabet. Upper case becomes lower case, and what the
/// alphabet lacks is one unknown token a byte.
class MyPluginCharacters final : public capstan::tokenizer::Tokenizer {
 public:
  enum : std::int64_t { pad, end, unknown, first };

  explicit MyPluginCharacters(std::string alphabet) : alphabet_(std::move(alphabet)) {}

  std::string name() const override { return "my_plugin"; }
  std::int64_t vocab_size() const override { return first + static_cast<std::int64_t>(alphabet_.size()); }
  std::vector<std::int64_t> encode(std::string_view text) const override;
  std::string decode(const std::vector<std::int64_t>& ids) const override;
  std::int64_t end_id() const override { return end; }
  std::int64_t pad_id() const override { return pad; }

 private:
  std::string alphabet_;
};

class MyPlugin final : public capstan::tokenizer::Opener {
 public:
  explicit MyPlugin(capstan::config::Options<MyPluginOptions> options) : options_(std::move(options)) {}

  /// A tokenizer that is read from a file is opened here; files() then names the file.
  std::shared_ptr<const capstan::tokenizer::Tokenizer> open(
      const capstan::tokenizer::TokenizerRequest& request) const override;

 private:
  capstan::config::Options<MyPluginOptions> options_;
};

}  // namespace my_plugin_plugin
