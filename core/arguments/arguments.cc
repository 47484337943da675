#include <capstan/base/exit_code.h>
#include <capstan/base/terminal.h>
#include <capstan/command/arguments.h>
#include <capstan/plugin/hint.h>
#include <capstan/plugin/host.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <sstream>
#include <utility>

namespace capstan::command {
namespace {

// A name that a script's variable left empty: it would be the current folder, or be ignored.
void refuse_empty(CLI::App& app, const std::set<const CLI::Option*>& texts) {
  const auto fault = [](const std::string& text) {
    return text.empty() ? std::string("it is empty: name something, or leave it out") : std::string();
  };
  for (auto* option : app.get_options()) {
    if (option->get_type_size() != 0 && texts.count(option) == 0) option->check(fault);
  }
  for (auto* action : app.get_subcommands([](CLI::App*) { return true; })) refuse_empty(*action, texts);
}

}  // namespace

struct Arguments::Parser {
  CLI::App app;
  std::set<const CLI::Option*> texts;  // they may be empty
};

Argument Argument::required() { return Argument(option_->required()); }

Argument Argument::range(std::int64_t least, std::int64_t most) {
  return Argument(option_->check(CLI::Range(least, most)));
}

Argument Argument::real_range(double least, double most) { return Argument(option_->check(CLI::Range(least, most))); }

Argument Argument::positive() { return Argument(option_->check(CLI::PositiveNumber)); }

Argument Argument::not_negative() { return Argument(option_->check(CLI::NonNegativeNumber)); }

Argument Argument::one_of(const std::vector<std::string>& words) {
  return Argument(option_->check(CLI::IsMember(words)));
}

Argument Argument::check(const std::function<std::string(const std::string&)>& fault, const std::string& limit) {
  return Argument(option_->check(fault, limit));
}

Argument Argument::only_with(const Argument& other) { return Argument(option_->needs(other.option_)); }

Argument Argument::not_with(const Argument& other) { return Argument(option_->excludes(other.option_)); }

Argument Argument::group(const std::string& heading) { return Argument(option_->group(heading)); }

Argument Argument::one_each(const std::string& shown) {
  if (!shown.empty()) option_->type_name(shown)->expected(1)->multi_option_policy(CLI::MultiOptionPolicy::TakeAll);
  return Argument(option_->allow_extra_args(false));
}

Argument Argument::commas() { return Argument(option_->delimiter(',')); }

Arguments::Arguments(const std::string& program, const std::string& about)
    : parser_(std::make_shared<Parser>()), app_(&parser_->app) {
  app_->name(program);
  app_->description(about);
}

Arguments::Arguments(std::shared_ptr<Parser> parser, CLI::App* app) : parser_(std::move(parser)), app_(app) {}

Argument Arguments::flag(const std::string& name, bool& given, const std::string& meaning) {
  return Argument(app_->add_flag(name, given, meaning));
}

Argument Arguments::value(const std::string& name, std::string& given, const std::string& meaning) {
  return Argument(app_->add_option(name, given, meaning));
}

Argument Arguments::value(const std::string& name, int& given, const std::string& meaning) {
  return Argument(app_->add_option(name, given, meaning));
}

Argument Arguments::value(const std::string& name, std::int64_t& given, const std::string& meaning) {
  return Argument(app_->add_option(name, given, meaning));
}

Argument Arguments::value(const std::string& name, std::uint64_t& given, const std::string& meaning) {
  return Argument(app_->add_option(name, given, meaning));
}

Argument Arguments::value(const std::string& name, double& given, const std::string& meaning) {
  return Argument(app_->add_option(name, given, meaning));
}

Argument Arguments::values(const std::string& name, std::vector<std::string>& given, const std::string& meaning) {
  return Argument(app_->add_option(name, given, meaning));
}

Argument Arguments::values(const std::string& name, std::set<int>& given, const std::string& meaning) {
  return Argument(app_->add_option(name, given, meaning));
}

Argument Arguments::texts(const std::string& name, std::vector<std::string>& given, const std::string& meaning) {
  const auto argument = values(name, given, meaning);
  parser_->texts.insert(argument.option_);
  return argument;
}

void Arguments::configuration(std::string& file, std::vector<std::string>& overrides, const std::string& meaning) {
  value("config", file, meaning).required();
  values("overrides", overrides,
         "options that win over the file: train.max_steps=250 strategy.PLUGIN.OPTION=VALUE; train.accumulation= "
         "unsets what the file says");
}

Argument Arguments::ranks(int& given, const std::string& meaning) {
  return value("-n,--ranks", given, meaning).range(1, 1000000);
}

Arguments Arguments::action(const std::string& name, const std::string& meaning) {
  app_->require_subcommand(1);
  return {parser_, app_->add_subcommand(name, meaning)};
}

std::vector<std::string> Arguments::actions() const {
  std::vector<std::string> names;
  for (const auto* action : std::as_const(*app_).get_subcommands([](const CLI::App*) { return true; }))
    names.push_back(action->get_name());
  return names;
}

std::string Arguments::chosen() const {
  const auto named = app_->get_subcommands();
  return named.empty() ? std::string() : named.front()->get_name();
}

void Arguments::version(const std::string& text) { app_->set_version_flag("--version", text); }

void Arguments::add_footer(const std::string& text) { app_->footer(app_->get_footer() + text); }

std::optional<Unread> Arguments::parse(std::vector<std::string> words) {
  refuse_empty(parser_->app, parser_->texts);
  std::reverse(words.begin(), words.end());  // as the parser wants them
  try {
    parser_->app.parse(words);
    return {};
  } catch (const CLI::ParseError& error) {
    std::ostringstream text;
    const bool is_fault = parser_->app.exit(error, text, text) != 0;
    return Unread{text.str(), is_fault};
  }
}

std::optional<int> Arguments::read(const Call& call) {
  app_->name("capstan " + call.name);
  app_->description(call.summary);
  add_footer("Every option of a configuration: docs/configuration.md, capstan reference WORD or capstan plugins NAME.");
  const auto unread = parse(call.arguments);
  if (!unread) return {};
  if (unread->is_fault) plugin::flag_faults(call.arguments, call.plugins.hints()).throw_if_any();
  unread->is_fault ? terminal::print_error(unread->text) : terminal::print(unread->text);
  return unread->is_fault ? static_cast<int>(ExitCode::usage) : 0;
}

}  // namespace capstan::command
