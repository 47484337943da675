#pragma once
#include <capstan/base/export.h>

#include <iosfwd>
#include <string>

#include "cli/command.h"
#include "setup/model_path.h"

CAPSTAN_BEGIN_NAMESPACE
namespace cli {

/// `capstan tokenize`: reads JSON lines {"text": …} and writes {"ids": […], "decoded": …} for each. `tokenizer` is a
/// model folder, an id of the hub that is in its cache, a tokenizer.json or "byte"; `special`: with the ids that its
/// template puts around a text. Throws Error that names the line for one that is no such object.
int tokenize_command(const std::string& tokenizer, const setup::HubCache& hub, bool special, std::istream& in,
                     std::ostream& out);

/// Declares `capstan tokenize`.
void add_tokenize_command(CLI::App& app, Chosen& chosen);

}  // namespace cli
CAPSTAN_END_NAMESPACE
