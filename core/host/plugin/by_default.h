#pragma once
#include <capstan/base/export.h>

#include <string>
#include <vector>

CAPSTAN_BEGIN_NAMESPACE
namespace plugin {

/// The names of Capstan's own plugins of a kind, in builtin_folder(), whose files say that a run opens them where no
/// table names them (CAPSTAN_OPENED_BY_DEFAULT). Opens none of them. A plugin elsewhere is opened only by its name.
std::vector<std::string> opened_by_default(const std::string& kind);

}  // namespace plugin
CAPSTAN_END_NAMESPACE
