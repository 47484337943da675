#include "cli/tokenize_command.h"

#include <capstan/base/error.h>
#include <capstan/base/exit_code.h>
#include <capstan/base/json.h>
#include <capstan/base/terminal.h>
#include <capstan/base/text.h>

#include <CLI/CLI.hpp>
#include <iostream>
#include <nlohmann/json.hpp>
#include <ostream>

#include "cli/hub_cache.h"
#include "tokenizer/tokenizers.h"

namespace capstan::cli {
namespace {

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

int tokenize_command(const std::string& tokenizer, const setup::HubCache& hub, bool special, std::istream& in,
                     std::ostream& out) {
  const auto folder = setup::find_tokenizer({tokenizer, std::filesystem::absolute(tokenizer).string(), {}}, hub);
  const auto made = tokenizer::make_tokenizer(folder ? folder->string() : tokenizer);
  std::int64_t number = 0;
  for (std::string line; std::getline(in, line);) {
    const auto text = text_of(line, ++number);
    std::vector<std::int64_t> ids;
    if (special) append(ids, made->prefix_ids());
    append(ids, made->encode(text));
    if (special) append(ids, made->suffix_ids());
    nlohmann::ordered_json answer;
    answer["ids"] = ids;
    answer["decoded"] = made->decode(ids);
    out << answer.dump() << '\n';
  }
  out.flush();
  return static_cast<int>(ExitCode::success);
}

namespace {

struct Given {
  std::string tokenizer;
  bool special = false;
};

}  // namespace

void add_tokenize_command(CLI::App& app, Chosen& chosen) {
  auto* command = app.add_subcommand(
      "tokenize", R"(read JSON lines {"text": ...} from stdin, write {"ids": [...], "decoded": ...})");
  const auto given = std::make_shared<Given>();
  command->add_option("tokenizer", given->tokenizer, "a model's folder or hub id, a tokenizer.json, or byte")
      ->required();
  command->add_flag("--special", given->special, "with the begin and end tokens that it puts around a text");
  choose_with(*command, chosen, [given](const Process& process) {
    terminal::PrintedStream out(terminal::print);
    return tokenize_command(given->tokenizer, hub_cache(process.env), given->special, std::cin, out);
  });
}

}  // namespace capstan::cli
