#include "arguments/arguments.h"

#include <capstan/base/exit_code.h>
#include <capstan/base/terminal.h>

#include <algorithm>

namespace arguments {
namespace {

void refuse_empty(CLI::App& app, const CLI::Option* texts) {
  const auto fault = [](const std::string& text) {
    return text.empty() ? std::string("it is empty: name something, or leave it out") : std::string();
  };
  for (auto* option : app.get_options()) {
    if (option->get_type_size() != 0 && option != texts) option->check(fault);
  }
}

}  // namespace

std::optional<int> read(CLI::App& app, const capstan::command::Call& call, const CLI::Option* texts) {
  app.name("capstan " + call.name);
  app.description(call.summary);
  refuse_empty(app, texts);
  auto words = call.arguments;
  std::reverse(words.begin(), words.end());  // as the parser wants them
  try {
    app.parse(words);
    return {};
  } catch (const CLI::ParseError& error) {
    capstan::terminal::PrintedStream out(capstan::terminal::print);
    capstan::terminal::PrintedStream err(capstan::terminal::print_error);
    return app.exit(error, out, err) == 0 ? 0 : static_cast<int>(capstan::ExitCode::usage);
  }
}

}  // namespace arguments
