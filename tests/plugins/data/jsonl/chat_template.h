#pragma once
// What tests of the model's own template have in common. They need a Python with jinja2.
#include "tokenizer/byte_tokenizer.h"

#include <capstan/base/paths.h>
#include <capstan/base/text.h>
#include <capstan/data_parts/subprocess.h>
#include <capstan_catch.h>
#include <capstan_places.h>

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "plugins/libraries/records/jsonl_data.h"
#include "support/folder.h"
#include "support/options.h"

namespace chat_template_cases {

using namespace capstan;
using Values = testing::OptionValues;

/// The parity tests' Python, else the one of PATH.
inline std::string python() {
  const std::string pinned = CAPSTAN_SOURCE_DIR "/.deps/venv5/bin/python3";
  return is_file(pinned) ? pinned : "python3";
}

/// Says so where there is none: then a case has nothing to look at.
inline bool has_jinja() {
  static const auto found = run_program({.arguments = {python(), "-c", "import jinja2"}});
  if (!found.succeeded()) WARN("skipped: no jinja2 here; tools/setup --parity installs it");
  return found.succeeded();
}

/// ChatML with a begin token, tools, what calls them, and reasoning.
inline constexpr const char* chatml = R"({{ bos_token }}{% if tools %}[tools {{ tools | tojson }}]{% endif %}
{%- for m in messages %}<{{ m.role }}>{% if m.reasoning_content %}(think {{ m.reasoning_content }}){% endif %}
{{- m.content }}{% for c in m.tool_calls or [] %}[call {{ c.function.name }} {{ c.function.arguments | tojson }}]{% endfor %}</>
{% endfor %}{% if add_generation_prompt %}<assistant>{% endif %})";

/// A folder as a model's: a template and the begin token "^".
inline void write_model(const test::Folder& folder, const std::string& text = chatml) {
  folder.write("model/chat_template.jinja", text);
  folder.write("model/tokenizer_config.json", R"({"bos_token": "^"})");
}

inline config::Options<jsonl::JsonlOptions> options(const test::Folder& folder, Values values) {
  const auto add = [&](const std::string& key, const std::string& value) {
    for (const auto& [known, its] : values) {
      if (known == key) return;
    }
    values.emplace_back(key, value);
  };
  add("python", python());
  add("derived", (folder / "derived").string());
  add("train", (folder / "a.jsonl").string());
  return testing::options_of<jsonl::JsonlOptions>("data", values);
}

inline const Values& by_model() {
  static const Values values{{"chat_template", std::string("model")}};
  return values;
}

inline std::vector<std::string> faults(const test::Folder& folder, const Values& values) {
  Diagnostics diagnostics;
  jsonl::JsonlData(options(folder, values)).check(diagnostics);
  std::vector<std::string> texts;
  for (const auto& diagnostic : diagnostics.list()) texts.push_back(diagnostic.text());
  return texts;
}

inline std::shared_ptr<data::DataSource> opened(
    const test::Folder& folder, const Values& values = by_model(), std::int64_t max_length = 1000,
    const std::shared_ptr<const tokenizer::Tokenizer>& tokenizer = std::make_shared<tokenizer::ByteTokenizer>()) {
  return jsonl::JsonlData(options(folder, values))
      .open({data::Split::train, tokenizer, max_length, 258, {}, (folder / "model").string()});
}

inline std::string shown(const std::vector<std::int64_t>& tokens, const std::vector<bool>& is_target) {
  REQUIRE(tokens.size() == is_target.size());
  std::string text;
  bool inside = false;
  for (std::size_t t = 0; t < tokens.size(); ++t) {
    if (is_target[t] != inside) text += inside ? "}" : "{";
    inside = is_target[t];
    text += tokens[t] < 256 ? std::string(1, static_cast<char>(tokens[t])) : ".";
  }
  return text + (inside ? "}" : "");
}

/// The sample's text, with what bears loss in braces and a special token as '.'.
inline std::string shown(const data::Sample& sample) { return shown(sample.tokens, sample.is_target); }

}  // namespace chat_template_cases
