#pragma once
#include <capstan/base/export.h>
#include <capstan/base/text.h>
#include <capstan/plugin/registry.h>

#include <string>
#include <string_view>
#include <utility>

CAPSTAN_BEGIN_NAMESPACE
namespace plugin {

/// Rethrows the exception that is being handled, with `context` added. An Error stays an Error; a std::logic_error
/// (a failed assertion) stays one, since it is a bug; any other std::exception becomes an Error.
[[noreturn]] void rethrow_with_context(const std::string& context);

/// Calls into a plugin: "while plugin 'fsdp' was in phase shard" is appended to the message of what fn throws.
/// Returns what fn returns. `phase` may say more: "placement of unit blocks.3".
template <class F>
decltype(auto) guard(std::string_view name, std::string_view phase, F&& fn) {
  try {
    return std::forward<F>(fn)();
  } catch (...) {
    rethrow_with_context(cat("plugin '", name, "' was in phase ", phase));
  }
}

/// The same, and names the kind too: "while plugin 'fsdp' (strategy) was in phase shard".
template <class F>
decltype(auto) guard(const Registration& plugin, std::string_view phase, F&& fn) {
  try {
    return std::forward<F>(fn)();
  } catch (...) {
    rethrow_with_context(cat("plugin '", plugin.name, "' (", plugin.kind, ") was in phase ", phase));
  }
}

}  // namespace plugin
CAPSTAN_END_NAMESPACE
