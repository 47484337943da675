#pragma once
#include <capstan/base/export.h>

#include <functional>
#include <optional>
#include <string>

CAPSTAN_BEGIN_NAMESPACE
namespace command {
class Command;
struct Call;
}  // namespace command
namespace launch {
struct RunArguments;
struct CheckArguments;
}  // namespace launch
namespace plugin {

/// The engine, which is all of Capstan that needs LibTorch, as the host sees it. Nothing of LibTorch's leaves it, nor
/// what LibTorch throws: that is an Error, or a std::logic_error where it is a bug.
class Engine {
 public:
  using Environment = std::function<std::optional<std::string>(const std::string&)>;
  virtual ~Engine() = default;

  /// `capstan run` and `capstan check`, whose arguments the host has read. They return the exit code.
  virtual int run(const launch::RunArguments& arguments, const Environment& env) const = 0;
  virtual int check(const launch::CheckArguments& arguments, const Environment& env) const = 0;
  /// Calls a command that is a plugin.
  virtual int call(command::Command& command, const command::Call& call) const = 0;
};

/// The engine of this process: the first call opens libcapstan_engine.so, which lies next to libcapstan.so, if its note
/// says that both were built together. Before that nothing of LibTorch may be in the process. Throws Error.
/// Thread-safe.
const Engine& open_engine();

/// Whether it is in the process: open_engine() was called, or the program is linked with it.
bool engine_is_there();

}  // namespace plugin
CAPSTAN_END_NAMESPACE
