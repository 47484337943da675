#pragma once
#include <capstan/base/error.h>
#include <capstan/base/export.h>
#include <capstan/plugin/hint.h>
#include <capstan/plugin/host.h>

#include <string>
#include <vector>

CAPSTAN_BEGIN_NAMESPACE
namespace plugin {

/// The hint about what somebody typed, dotted or not ("train.gradient_accumulation_steps", "BATCH_SIZE",
/// "trainer.max_steps"); a table before it may be ours. Null when no program has it, or it could be several things.
const Hint* find_hint(const std::vector<Hint>& hints, const std::string& typed);

/// For a fault's fix: "did you mean 'train.max_steps'? (TOOL's trainer.max_steps)".
std::string hint_text(const Hint& hint);

/// The error with what plugins say of names that are unknown; it is asked for where an error is to be printed.
Error with_hints(const Error& error, Host& host);

}  // namespace plugin
CAPSTAN_END_NAMESPACE
