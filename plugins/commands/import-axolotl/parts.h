#pragma once
#include <string>

#include "import.h"

namespace import_axolotl {

// What the file says of one thing, each as options of ours. They are called after Import::judge().

/// [model], the tokenizer, special tokens.
void take_model(Import& import);
/// Batches, the length of the run, precision.
void take_training(Import& import);
void take_optimizer(Import& import);
void take_schedule(Import& import);
/// Adapters and the frozen model's bits.
void take_adapter(Import& import);
/// Recompute, sharding, parallelism.
void take_strategies(Import& import);
/// Preferences.
void take_objective(Import& import);
void take_data(Import& import);
/// Evaluations, checkpoints, the run's folder.
void take_run(Import& import);
void take_monitors(Import& import);

/// Is every parameter trained?
bool trains_all(const Import& import);
/// Does a micro-batch hold packed rows?
bool packs(const Import& import);

}  // namespace import_axolotl
