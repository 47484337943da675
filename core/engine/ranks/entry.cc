// What the host sees of the engine (plugin/engine.h).
#include <capstan/base/error.h>
#include <capstan/command/command.h>

#include <c10/util/Exception.h>

#include <stdexcept>

#include "plugin/engine.h"
#include "ranks/check_command.h"
#include "ranks/run_command.h"
#include "ranks/torch_words.h"

namespace capstan::ranks {
namespace {

// Calls `fn`. What LibTorch throws leaves as an Error where there are words for it, else as a std::logic_error, which
// is reported as a bug: the engine's caller need not know LibTorch's types.
template <class F>
int without_torch_errors(const F& fn) {
  try {
    return fn();
  } catch (const c10::Error& error) {
    if (auto known = in_words(error)) throw Error(*known);
    throw std::logic_error(error.what());
  }
}

class OwnEngine final : public plugin::Engine {
 public:
  int run(const launch::RunArguments& arguments, const Environment& env) const override {
    return without_torch_errors([&] { return run_command(arguments, env); });
  }
  int check(const launch::CheckArguments& arguments, const Environment& env) const override {
    return without_torch_errors([&] { return check_command(arguments, env); });
  }
  int call(command::Command& command, const command::Call& call) const override {
    return without_torch_errors([&] { return command.run(call); });
  }
};

}  // namespace
}  // namespace capstan::ranks

extern "C" [[gnu::visibility("default")]] const capstan::plugin::Engine* capstan_engine() {
  static const capstan::ranks::OwnEngine engine;
  return &engine;
}
