#include <capstan/base/exit_code.h>
#include <capstan/base/terminal.h>
#include <capstan/command.h>
#include <capstan/config/model_path.h>
#include <capstan/tokenizer/open.h>

#include <filesystem>
#include <iostream>

#include "arguments/arguments.h"
#include "tokenize_lines.h"

namespace tokenize {
namespace {

using namespace capstan;

/// capstan tokenize TOKENIZER < LINES
class Tokenize : public command::Command {
 public:
  int run(const command::Call& call) override {
    CLI::App app;
    std::string name;
    bool special = false;
    app.add_option("tokenizer", name, "a model's folder or hub id, a tokenizer.json, or byte")->required();
    app.add_flag("--special", special, "with the begin and end tokens that it puts around a text");
    if (const auto code = arguments::read(app, call)) return *code;
    const auto folder =
        config::find_tokenizer({name, std::filesystem::absolute(name).string(), {}},
                               config::hub_cache(call.environment), tokenizer::file_names(call.plugins));
    const auto opened = tokenizer::open_named(folder ? folder->string() : name, {}, call.plugins);
    terminal::PrintedStream out(terminal::print);
    tokenize_lines(*opened.object, special, std::cin, out);
    return static_cast<int>(ExitCode::success);
  }
};

}  // namespace

CAPSTAN_COMMAND("tokenize", "0.1.0", "read JSON lines {text: ...} from stdin, write {ids: [...], decoded: ...}",
                Tokenize)

}  // namespace tokenize
