#include <capstan/base/terminal.h>
#include <capstan/command.h>

#include "answers.h"
#include "arguments/arguments.h"

namespace checkpoints {
namespace {

/// capstan checkpoint ls|verify|show PATH
class CheckpointCommand : public capstan::command::Command {
 public:
  int run(const capstan::command::Call& call) override {
    CLI::App app;
    Arguments given;
    declare(app, given);
    if (const auto code = arguments::read(app, call)) return *code;
    capstan::terminal::PrintedStream out(capstan::terminal::print);
    capstan::terminal::PrintedStream progress(capstan::terminal::print_error);
    return answer(given, out, progress);
  }
};

}  // namespace

CAPSTAN_COMMAND("checkpoint", "0.1.0", "list, verify or show checkpoints", CheckpointCommand)

}  // namespace checkpoints
