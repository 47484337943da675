#pragma once
#include <capstan/base/export.h>
#include <capstan/layout/source.h>
#include <capstan/strategy/exporter.h>

#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "assembly/plugins.h"
#include "hf/door.h"

CAPSTAN_BEGIN_NAMESPACE
namespace session {

/// Where a folder is written until it is complete: next to it, as "NAME.tmp".
std::filesystem::path temporary_of(const std::filesystem::path& folder);
/// Makes that folder, empty.
std::filesystem::path make_temporary(const std::filesystem::path& folder);
/// Gives the complete folder its name, and the place of one that stands there.
void put_in_place(const std::filesystem::path& folder);

/// What a strategy writes a run as.
struct Export {
  std::string strategy;  ///< the plugin's name
  std::shared_ptr<const strategy::Exporter> exporter;
};
/// All strategies' exports, in the strategies' order.
std::vector<Export> exports_of(const assembly::Strategies& strategies);

/// "--to NAME": how `capstan export` calls them; empty: there are none.
std::string export_options(const assembly::Strategies& strategies);

/// Why it cannot hold what was trained; empty: it can.
std::string refusal_of(const Export& chosen, const assembly::Plugins& plugins);

/// Only this rank writes it: the folder appears at its name when it is complete, and one that stands there is replaced.
/// Returns "FOLDER for NAME: runs/a/FOLDER (…)". Throws Error where it is refused.
std::string write_export(const Export& chosen, const assembly::Plugins& plugins, layout::Source& values,
                         const std::filesystem::path& folder);

/// What a run leaves for other libraries at its end, from its `weights` folder: what its strategies' exporters write
/// then, and `run`/model for transformers where its files have a place for all records. Returns a line on each, or on
/// why there is none. Collective over the world.
std::string write_final_model(const hf::ModelToWrite& model, const std::filesystem::path& weights,
                              const std::filesystem::path& run, comm::Communicator& communicator);

/// "model for transformers: runs/a/model (bfloat16, 1.04 GiB in 2 files)".
std::string written_text(const hf::WrittenModel& written);

}  // namespace session
CAPSTAN_END_NAMESPACE
