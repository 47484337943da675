#include <capstan/base/error.h>
#include <capstan/base/printable.h>
#include <capstan/base/text.h>

#include <stdexcept>

namespace capstan {

std::string Diagnostic::text() const {
  std::string out = where.empty() ? "" : printable(where) + ": ";
  out += printable_lines(what);
  if (!fix.empty()) out += "\n    fix: " + printable_lines(fix);
  return out;
}

void Diagnostics::add(std::string where, std::string what, std::string fix) {
  list_.push_back({std::move(where), std::move(what), std::move(fix)});
}

void Diagnostics::throw_if_any() const {
  if (!empty()) throw Error(list_);
}

Error::Error(std::string what, std::string fix, std::string where)
    : diagnostics_{{std::move(where), std::move(what), std::move(fix)}} {
  compose();
}

Error::Error(std::vector<Diagnostic> diagnostics) : diagnostics_(std::move(diagnostics)) { compose(); }

Error::~Error() = default;

Error& Error::add_context(std::string context) {
  context_.push_back(std::move(context));
  compose();
  return *this;
}

void Error::compose() {
  message_.clear();
  for (const auto& diagnostic : diagnostics_) message_ += (message_.empty() ? "" : "\n") + diagnostic.text();
  for (const auto& context : context_) message_ += "\n    while " + printable_lines(context);
}

void assertion_failed(const char* expression, const char* file, int line) {
  throw std::logic_error(cat("assertion failed: ", expression, " at ", file, ":", line));
}

}  // namespace capstan
