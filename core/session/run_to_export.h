#pragma once
#include <capstan/session/run_to_export.h>

#include <filesystem>
#include <memory>

namespace capstan::session {

/// See RunToExport::open.
std::unique_ptr<RunToExport> open_run_to_export(const std::filesystem::path& run, const RunToExport::Environment& env,
                                                plugin::Host& host);

}  // namespace capstan::session
