#pragma once
#include <optional>
#include <string>
#include <vector>

#include "runs/run.h"

namespace sweep {

/// What grows with the ranks.
enum class Weak { none, layers, samples };

/// One axis of a sweep: an option and its values.
struct SweepAxis {
  std::string option;
  std::vector<std::string> values;
};

/// A set of runs that one report shows.
struct Sweep {
  std::string name;        ///< what the runs' names begin with
  std::vector<int> ranks;  ///< ranks of a node
  std::vector<int> nodes{1};
  std::vector<SweepAxis> axes;
  std::vector<std::string> overrides;  ///< options of every run
  Weak weak = Weak::none;
};

/// A run of it.
struct SweepRun {
  std::string name;  ///< "fsdp-4", on several nodes "fsdp-2x4", with axes "fsdp-4-lr=1e-4"
  int nodes = 1;
  int ranks_per_node = 1;
  std::vector<std::string> overrides;
  int ranks() const { return nodes * ranks_per_node; }
};

/// "train.micro_batch=1,2,4" as an axis; nothing for an option with one value, or with a list in brackets.
std::optional<SweepAxis> axis_of(const std::string& override_text);

/// "1,2,4": throws Error, which names the flag, for what is no list of numbers from 1 on.
std::vector<int> counts_of(const std::string& text, const std::string& flag);

/// The runs, smallest first. `base` is the resolved configuration of the smallest: what grows starts from it. Throws
/// Error where it cannot grow so (a micro-batch that does not divide).
std::vector<SweepRun> planned_runs(const Sweep& sweep, const runs::Run& base);

/// Whether this run has ended after all of its steps, on the planned ranks and nodes, with the same configuration but
/// for its name.
bool is_done(const runs::Run& run, const runs::Run& wanted, const SweepRun& planned);

}  // namespace sweep
