#include <capstan/base/counted.h>
#include <capstan/base/error.h>
#include <capstan/base/printable.h>
#include <capstan/base/text.h>

#include <algorithm>
#include <map>
#include <stdexcept>

namespace capstan {
namespace {

// The same fault at several places, as one in every line of a file, is said once, with the first of them.
std::vector<Diagnostic> grouped(const std::vector<Diagnostic>& all) {
  constexpr std::size_t most_places = 4;
  std::map<std::pair<std::string, std::string>, std::vector<std::string>> places;
  std::vector<Diagnostic> groups;
  for (const auto& fault : all) {
    auto& known = places[{fault.what, fault.fix}];
    if (known.empty()) groups.push_back(fault);
    const bool is_new = !fault.where.empty() && std::find(known.begin(), known.end(), fault.where) == known.end();
    if (known.empty() || is_new) known.push_back(fault.where);
  }
  for (auto& group : groups) {
    auto others = places.at({group.what, group.fix});
    others.erase(others.begin());
    if (others.empty()) continue;
    const auto more = others.size() < most_places ? 0 : others.size() - (most_places - 1);
    others.resize(others.size() - more);
    group.what += cat("\n    also at ", join(others), more > 0 ? cat(" and ", counted(more, "more place")) : "");
  }
  return groups;
}

}  // namespace

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
  for (const auto& diagnostic : grouped(diagnostics_)) message_ += (message_.empty() ? "" : "\n") + diagnostic.text();
  for (const auto& context : context_) message_ += "\n    while " + printable_lines(context);
}

void assertion_failed(const char* expression, const char* file, int line) {
  throw std::logic_error(cat("assertion failed: ", expression, " at ", file, ":", line));
}

}  // namespace capstan
