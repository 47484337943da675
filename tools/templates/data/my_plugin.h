#pragma once
#include <capstan/data.h>

#include <cstdint>
#include <memory>
#include <string>
#include <utility>

namespace my_plugin_plugin {

/// The options of [data]. Their defaults are here; describe() declares the rest, once.
struct MyPluginOptions {
  std::int64_t largest = 99;

  static void describe(capstan::config::OptionTable<MyPluginOptions>& t);
};

/// An example to replace: sums such as "12+7=19". Every tenth pair of numbers is for evaluation, the rest for training.
class MyPlugin final : public capstan::data::Data {
 public:
  explicit MyPlugin(capstan::config::Options<MyPluginOptions> options) : options_(std::move(options)) {}

  /// Checks of files and sizes belong here; sums need none.
  void check(capstan::Diagnostics&) const override {}
  std::shared_ptr<capstan::data::DataSource> open(const capstan::data::SplitRequest& request) const override;
  std::int64_t max_length() const override;

 private:
  capstan::config::Options<MyPluginOptions> options_;
};

/// One split. Pair p of the numbers 0 … largest is (p / (largest + 1), p % (largest + 1)).
class MyPluginSplit final : public capstan::data::DataSource {
 public:
  MyPluginSplit(std::int64_t largest, capstan::data::SplitRequest request)
      : largest_(largest), request_(std::move(request)) {}

  std::int64_t size() const override;
  /// Prompt "12+7=", answer "19" and the end token; only the answer bears loss.
  capstan::data::Sample get(std::int64_t index) const override;
  /// exact_match: 100 or 0.
  capstan::monitor::Values score(const capstan::data::Sample& sample, const std::string& text) const override;

 private:
  std::int64_t largest_;
  capstan::data::SplitRequest request_;
};

}  // namespace my_plugin_plugin
