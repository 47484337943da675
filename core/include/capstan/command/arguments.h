#pragma once
#include <capstan/base/export.h>
#include <capstan/command/command.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

namespace CLI {
class App;
class Option;
}  // namespace CLI

CAPSTAN_BEGIN_NAMESPACE
namespace command {

/// An argument that was declared. What else is said of it stands in the help, and other values are refused.
class Argument {
 public:
  Argument required();
  /// Both ends are allowed.
  Argument range(std::int64_t least, std::int64_t most);
  Argument real_range(double least, double most);
  Argument positive();
  Argument not_negative();
  Argument one_of(const std::vector<std::string>& words);
  /// `fault`: what is wrong with a text, empty for nothing. `limit`: what the help says of it.
  Argument check(const std::function<std::string(const std::string&)>& fault, const std::string& limit);
  Argument only_with(const Argument& other);
  Argument not_with(const Argument& other);
  /// The help has it below this heading.
  Argument group(const std::string& heading);
  /// An option takes one value each time, so that a positional argument may follow. `shown`: the help's word for it.
  Argument one_each(const std::string& shown = "");
  /// Commas in a text separate values.
  Argument commas();

 private:
  friend class Arguments;
  [[gnu::visibility("hidden")]] explicit Argument(CLI::Option* option) : option_(option) {}
  CLI::Option* option_;
};

/// What is to be printed where nothing was read: the help that was asked for, or what is wrong.
struct Unread {
  std::string text;
  bool is_fault = true;
};

/// A command's arguments, each declared with its name, the variable that reading fills, and its line of the help. A
/// name is an option's names ("-n,--ranks"), or a positional argument's ("run"). Copies are the same arguments;
/// variables must live until they are read.
class Arguments {
 public:
  explicit Arguments(const std::string& program = "", const std::string& about = "");
  Argument flag(const std::string& name, bool& given, const std::string& meaning);
  Argument value(const std::string& name, std::string& given, const std::string& meaning);
  Argument value(const std::string& name, int& given, const std::string& meaning);
  Argument value(const std::string& name, std::int64_t& given, const std::string& meaning);
  Argument value(const std::string& name, std::uint64_t& given, const std::string& meaning);
  Argument value(const std::string& name, double& given, const std::string& meaning);
  Argument values(const std::string& name, std::vector<std::string>& given, const std::string& meaning);
  Argument values(const std::string& name, std::set<int>& given, const std::string& meaning);
  /// Values that may be empty; anywhere else that is a script's unset variable, and refused.
  Argument texts(const std::string& name, std::vector<std::string>& given, const std::string& meaning);
  /// The configuration file and options that win over it, and -n, as every command takes them.
  void configuration(std::string& file, std::vector<std::string>& overrides,
                     const std::string& meaning = "configuration file (TOML)");
  Argument ranks(int& given, const std::string& meaning = "start this many local ranks");
  /// One of several things to do, with arguments of its own: `capstan checkpoint ls …`. One of them must be named.
  Arguments action(const std::string& name, const std::string& meaning);
  /// Names of the actions, and the one that was named; empty: none.
  std::vector<std::string> actions() const;
  std::string chosen() const;
  void version(const std::string& text);
  void add_footer(const std::string& text);

  /// Reads what follows the name on the command line; Unread where that is all there is to do.
  std::optional<Unread> parse(std::vector<std::string> words);
  /// The same for a plugin's command: prints the help or the fault, and returns the exit code then. Throws Error for
  /// another program's flag, and says what it is here.
  std::optional<int> read(const Call& call);

 private:
  struct Parser;
  [[gnu::visibility("hidden")]] Arguments(std::shared_ptr<Parser> parser, CLI::App* app);
  std::shared_ptr<Parser> parser_;  ///< reads the program's or the command's arguments
  CLI::App* app_;                   ///< its own, or an action's
};

}  // namespace command
CAPSTAN_END_NAMESPACE
