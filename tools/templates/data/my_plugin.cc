#include "my_plugin.h"

#include <capstan/base/text.h>

namespace my_plugin_plugin {

using capstan::cat;
using capstan::data::Split;

void MyPluginOptions::describe(capstan::config::OptionTable<MyPluginOptions>& t) {
  t.add("largest", &MyPluginOptions::largest).min(3).max(9999).doc("largest number that is added");
}

std::shared_ptr<capstan::data::DataSource> MyPlugin::open(const capstan::data::SplitRequest& request) const {
  return std::make_shared<MyPluginSplit>(options_->largest, request);
}

std::int64_t MyPlugin::max_length() const {
  const auto largest = options_->largest;
  const auto text = cat(largest, "+", largest, "=", 2 * largest);
  return static_cast<std::int64_t>(text.size()) + 1;  // no tokenizer makes more tokens than bytes; one ends it
}

std::int64_t MyPluginSplit::size() const {
  const auto pairs = (largest_ + 1) * (largest_ + 1);
  const auto eval = (pairs + 9) / 10;
  return request_.split == Split::eval ? eval : pairs - eval;
}

capstan::data::Sample MyPluginSplit::get(std::int64_t index) const {
  const auto pair = request_.split == Split::eval ? 10 * index : index / 9 * 10 + index % 9 + 1;
  const auto a = pair / (largest_ + 1);
  const auto b = pair % (largest_ + 1);
  const auto answer = std::to_string(a + b);
  capstan::data::Sample sample;
  sample.id = cat(a, "+", b);
  sample.references = {answer};
  sample.tokens = request_.tokenizer->encode(sample.id + "=");
  sample.prompt_length = static_cast<std::int64_t>(sample.tokens.size());
  for (const auto token : request_.tokenizer->encode(answer)) sample.tokens.push_back(token);
  if (const auto end = request_.tokenizer->end_id(); end >= 0) sample.tokens.push_back(end);
  sample.is_target.assign(sample.tokens.size(), true);
  for (std::int64_t i = 0; i < sample.prompt_length; ++i) sample.is_target[static_cast<std::size_t>(i)] = false;
  return sample;
}

capstan::monitor::Values MyPluginSplit::score(const capstan::data::Sample& sample, const std::string& text) const {
  return {{"exact_match", text == sample.references.front() ? 100.0 : 0.0}};
}

}  // namespace my_plugin_plugin

CAPSTAN_DATA("my_plugin", "0.1.0", "sums of two numbers", my_plugin_plugin::MyPlugin, my_plugin_plugin::MyPluginOptions)
