#pragma once
#include <capstan/base/export.h>
#include <capstan/plugin/host.h>

#include <string>

CAPSTAN_BEGIN_NAMESPACE
namespace hf {

/// Throws Error at the config.json of a family that no plugin computes, which names the known one that its keys and
/// their values are nearest to, and what differs.
[[noreturn]] void refuse_unknown_family(const std::string& folder, plugin::Host& host);

}  // namespace hf
CAPSTAN_END_NAMESPACE
