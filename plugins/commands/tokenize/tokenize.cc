#include <capstan/base/error.h>
#include <capstan/base/exit_code.h>
#include <capstan/base/json.h>
#include <capstan/base/terminal.h>
#include <capstan/base/text.h>
#include <capstan/command.h>
#include <capstan/config/model_path.h>
#include <capstan/tokenizer/open.h>

#include <filesystem>
#include <iostream>

#include "tokenize_lines.h"

namespace tokenize {
namespace {

using namespace capstan;

std::string text_of(const std::string& line, std::int64_t number) {
  const auto json = try_parse_json(line);
  if (json.is_object() && json.contains("text") && json.at("text").is_string()) return json.at("text").text();
  throw Error(cat("line ", number, " of the input is not a JSON object with a text"),
              R"(write one object a line, such as {"text": "Where is Paris?"})");
}

void append(std::vector<std::int64_t>& ids, const std::vector<std::int64_t>& more) {
  ids.insert(ids.end(), more.begin(), more.end());
}

/// capstan tokenize TOKENIZER < LINES
int run(const command::Call& call) {
  command::Arguments arguments;
  std::string name;
  bool special = false;
  arguments.value("tokenizer", name, "a model's folder or hub id, a tokenizer.json, or byte").required();
  arguments.flag("--special", special, "with the begin and end tokens that it puts around a text");
  if (const auto code = arguments.read(call)) return *code;
  const auto folder = config::find_tokenizer({name, std::filesystem::absolute(name).string(), {}},
                                             config::hub_cache(call.environment), tokenizer::file_names(call.plugins));
  const auto opened = tokenizer::open_named(folder ? folder->string() : name, {}, call.plugins);
  terminal::PrintedStream out(terminal::print);
  tokenize_lines(*opened.object, special, std::cin, out);
  return static_cast<int>(ExitCode::success);
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
    Json answer;
    answer["ids"] = ids;
    answer["decoded"] = tokenizer.decode(ids);
    out << answer.dump() << '\n';
  }
  out.flush();
}

CAPSTAN_COMMAND("tokenize", "0.1.0", "read JSON lines {text: ...} from stdin, write {ids: [...], decoded: ...}", run)

}  // namespace tokenize
