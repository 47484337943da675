// What the host sees of the engine (plugin/engine.h).
#include <capstan/command/command.h>

#include <CLI/CLI.hpp>
#include <memory>

#include "cli/command.h"
#include "commands/check_command.h"
#include "commands/checkpoint_command.h"
#include "commands/data_command.h"
#include "commands/export_command.h"
#include "commands/plan_command.h"
#include "commands/run_command.h"
#include "plugin/engine.h"
#include "ranks/torch_words.h"

namespace capstan::commands {
namespace {

class OwnEngine final : public plugin::Engine {
 public:
  int run(const launch::RunArguments& arguments, const Environment& env) const override {
    return ranks::without_torch_errors([&] { return run_command(arguments, env); });
  }
  int check(const launch::CheckArguments& arguments, const Environment& env) const override {
    return ranks::without_torch_errors([&] { return check_command(arguments, env); });
  }
  int call(command::Command& command, const command::Call& call) const override {
    return ranks::without_torch_errors([&] { return command.run(call); });
  }
  void declare(CLI::App& app, cli::Chosen& chosen) const override {
    const auto own = std::make_shared<cli::Chosen>();
    add_plan_command(app, *own);
    add_export_command(app, *own);
    add_checkpoint_command(app, *own);
    add_data_command(app, *own);
    chosen = [own](const cli::Process& process) {
      return ranks::without_torch_errors([&] { return (*own)(process); });
    };
  }
};

}  // namespace
}  // namespace capstan::commands

extern "C" [[gnu::visibility("default")]] const capstan::plugin::Engine* capstan_engine() {
  static const capstan::commands::OwnEngine engine;
  return &engine;
}
