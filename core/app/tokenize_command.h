#pragma once
#include <capstan/base/export.h>

#include <iosfwd>
#include <string>

CAPSTAN_BEGIN_NAMESPACE
namespace app {

/// `capstan tokenize`: reads JSON lines {"text": …} and writes {"ids": […], "decoded": …} for each. `tokenizer` is a
/// model folder, a tokenizer.json or "byte"; `special`: with the ids that its template puts around a text. Throws Error
/// that names the line for one that is no such object.
int tokenize_command(const std::string& tokenizer, bool special, std::istream& in, std::ostream& out);

}  // namespace app
CAPSTAN_END_NAMESPACE
