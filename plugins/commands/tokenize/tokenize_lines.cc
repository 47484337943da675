#include "tokenize_lines.h"

#include <capstan/base/error.h>
#include <capstan/base/json.h>
#include <capstan/base/text.h>

#include <istream>
#include <nlohmann/json.hpp>
#include <ostream>

namespace tokenize {
namespace {

using namespace capstan;

std::string text_of(const std::string& line, std::int64_t number) {
  const auto json = try_parse_json<nlohmann::json>(line);
  if (json.is_object() && json.contains("text") && json.at("text").is_string()) return json.at("text");
  throw Error(cat("line ", number, " of the input is not a JSON object with a text"),
              R"(write one object a line, such as {"text": "Where is Paris?"})");
}

void append(std::vector<std::int64_t>& ids, const std::vector<std::int64_t>& more) {
  ids.insert(ids.end(), more.begin(), more.end());
}

}  // namespace

void tokenize_lines(const tokenizer::Tokenizer& tokenizer, bool special, std::istream& in, std::ostream& out) {
  std::int64_t number = 0;
  for (std::string line; std::getline(in, line);) {
    const auto text = text_of(line, ++number);
    std::vector<std::int64_t> ids;
    if (special) append(ids, tokenizer.prefix_ids());
    append(ids, tokenizer.encode(text));
    if (special) append(ids, tokenizer.suffix_ids());
    nlohmann::ordered_json answer;
    answer["ids"] = ids;
    answer["decoded"] = tokenizer.decode(ids);
    out << answer.dump() << '\n';
  }
  out.flush();
}

}  // namespace tokenize
