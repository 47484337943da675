#pragma once
// libcapstan_resume.so: which checkpoint a run continues from, and in what it is not the run that was saved. The engine
// opens it where checkpoint.resume or checkpoint.accept is set.
#include <capstan/base/error.h>
#include <capstan/base/export.h>

#include <string>
#include <vector>

#include "job/resume.h"
#include "plugin/side_library.h"

CAPSTAN_BEGIN_NAMESPACE
namespace resume {

/// Something that decides what a run learns and is not as it was in the run that saved a checkpoint.
struct Change {
  std::string name;  ///< what checkpoint.accept calls it: "optimizer.clip"
  std::string was;   ///< for people
  std::string is;
  Diagnostic refusal;
};

/// The library's functions.
struct Door {
  /// Finds what checkpoint.resume means. Throws Error for a folder that is named and holds nothing valid, for what is
  /// there and cannot be read, and for a run's own checkpoints that have vanished. With a group it is a collective: all
  /// ranks find, or throw, the same.
  job::Resume (*find)(const job::Job& job, checkpoint::Depth depth, comm::Group* group);
  /// Adds a fault for everything in which the job is not the one that was saved: records, `changes` that are not
  /// accepted, global batches, the length of the run. `units` are assembled.
  void (*check)(const job::Job& job, const checkpoint::Reader& reader, const std::vector<nn::Unit*>& units,
                Diagnostics& diagnostics);
  /// Adds a fault for each name in checkpoint.accept that stands for nothing of the job, nor of the checkpoint, if any.
  void (*check_accepted)(const job::Job& job, const checkpoint::Reader* reader, Diagnostics& diagnostics);
  /// The options of [model], [data] and [optimizer], train.precision, the training data and frozen folders by their
  /// content, and strategies (with their options) that are about more than the layout: all that differ from what the
  /// checkpoint says. What it does not say counts as equal. Not compared: where files lie, evaluation, the schedule,
  /// the layout.
  std::vector<Change> (*changes)(const job::Job& job, const checkpoint::Reader& reader);
};

/// Opens the library the first time. Throws Error where its file is missing.
inline const Door& door() { return plugin::door_of<Door>("resume"); }

}  // namespace resume
CAPSTAN_END_NAMESPACE
