// What the host sees of the engine (plugin/engine.h).
#include <capstan/command/command.h>

#include "commands/check_command.h"
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
};

}  // namespace
}  // namespace capstan::commands

extern "C" [[gnu::visibility("default")]] const capstan::plugin::Engine* capstan_engine() {
  static const capstan::commands::OwnEngine engine;
  return &engine;
}
