#pragma once
#include <capstan/base/export.h>
#include <capstan/layout/file_tensor.h>
#include <capstan/layout/source.h>

#include <filesystem>
#include <string>

CAPSTAN_BEGIN_NAMESPACE
namespace strategy {

/// What an Exporter writes from.
struct Exported {
  layout::FileMap files;   ///< where the model's own records stand in its published files
  layout::Source& values;  ///< all records that the run saved, any box; frozen ones may be only in `base`
  std::string base;        ///< the folder that the run started from; empty: its model was initialised
};

/// Writes a run as files of another program: `capstan export RUN --to NAME`, and at a run's end where at_end() says so.
/// A strategy's exporters() gives it, after structure() of a model whose units live as long as it. A folder of another
/// program that a run shall start from is Strategy::values()' and nn::Codec's work.
///
/// Experimental: a later level of the SDK may call write() on all ranks, each with its part of the records, and may let
/// a run's options decide in the place of at_end().
///
/// Called on the training thread. No method calls a collective: all ranks ask name(), at_end() and refusal(), which
/// must give the same answer on each, and only the first rank calls write(), while the others wait. Throws Error for
/// what a user can repair.
class Exporter {
 public:
  virtual ~Exporter();
  /// What --to calls it and messages say. "hf" is the model's own folder; where two in a run have one name, the first
  /// one's strategy counts.
  virtual std::string name() const = 0;
  /// Its folder in the run's, where no other is named: "adapter".
  virtual std::string folder() const = 0;
  /// Does a run write it at its end? The model's own folder is written besides where its files have a place for all
  /// records.
  virtual bool at_end() const = 0;
  /// Why these files cannot hold what was trained, and what to do instead; empty: they can.
  virtual std::string refusal(const layout::FileMap& files) const = 0;
  /// Writes the files into `folder`, which is there and empty, and appears at its name when this returns. Returns what
  /// is said of them: "rank 8, 1,234 parameters".
  virtual std::string write(const std::filesystem::path& folder, const Exported& run) const = 0;
};

}  // namespace strategy
CAPSTAN_END_NAMESPACE
