#include "prompts.h"

#include <capstan/base/error.h>
#include <capstan/base/json.h>
#include <capstan/base/text.h>

#include <istream>
#include <nlohmann/json.hpp>

namespace generate {
namespace {

using namespace capstan;

PromptLine json_prompt(const std::string& line, std::int64_t number) {
  const auto json = try_parse_json<nlohmann::json>(line);
  if (!json.is_object() || !json.contains("prompt") || !json.at("prompt").is_string()) {
    throw Error(cat("line ", number, " of the input is not a JSON object with a prompt"),
                R"(write one object a line, such as {"prompt": "The capital of France is"})");
  }
  return {json.at("prompt"), json.contains("id") ? json.at("id").dump() : std::string()};
}

}  // namespace

std::vector<PromptLine> read_prompts(std::istream& in, bool json) {
  std::vector<PromptLine> lines;
  std::int64_t number = 0;
  for (std::string line; std::getline(in, line);) {
    ++number;
    if (trim(line).empty()) continue;
    lines.push_back(json ? json_prompt(line, number) : PromptLine{line, {}});
  }
  return lines;
}

}  // namespace generate
