#pragma once
#include <capstan/base/export.h>
#include <capstan/layout/source.h>
#include <capstan/strategy/exporter.h>

#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "hf/door.h"
#include "job/exporters.h"
#include "job/plugins.h"

CAPSTAN_BEGIN_NAMESPACE
namespace train {

/// Why it cannot hold what was trained; empty: it can.
std::string refusal_of(const job::Export& chosen, const job::Plugins& plugins);

/// Only this rank writes it: the folder appears at its name when it is complete, and one that stands there is replaced.
/// Returns "FOLDER for NAME: runs/a/FOLDER (…)". Throws Error where it is refused.
std::string write_export(const job::Export& chosen, const job::Plugins& plugins, layout::Source& values,
                         const std::filesystem::path& folder);

/// What a run leaves for other libraries at its end, from its `weights` folder: what its strategies' exporters write
/// then, and `run`/model for transformers where its files have a place for all records. Returns a line on each, or on
/// why there is none. Collective over the world.
std::string write_final_model(const hf::ModelToWrite& model, const std::filesystem::path& weights,
                              const std::filesystem::path& run, comm::Communicator& communicator);

/// "model for transformers: runs/a/model (bfloat16, 1.04 GiB in 2 files)".
std::string written_text(const hf::WrittenModel& written);

}  // namespace train
CAPSTAN_END_NAMESPACE
