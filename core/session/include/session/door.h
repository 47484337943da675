#pragma once
// libcapstan_session.so: what only commands ask of a configuration or a run: a split's samples, and a run's weights for
// other programs. The engine opens it where one of them asks.
#include <capstan/base/export.h>
#include <capstan/session/run_to_export.h>
#include <capstan/session/split_view.h>

#include "plugin/side_library.h"

CAPSTAN_BEGIN_NAMESPACE
namespace job {
struct Job;
}
namespace session {

/// The library's functions.
struct Door {
  decltype(SplitView::open)* split_view;
  decltype(RunToExport::open)* run_to_export;
  /// How many of a split's first 500 samples have no accepted answer in their prompt only because the prompt was cut to
  /// data.max_length: such a question teaches to guess. In a line; empty where none has.
  std::string (*cut_answers)(const job::Job& job, data::Split split);
};

/// Opens the library the first time. Throws Error where its file is missing.
inline const Door& door() { return plugin::door_of<Door>("session"); }

}  // namespace session
CAPSTAN_END_NAMESPACE
