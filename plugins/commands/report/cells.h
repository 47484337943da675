#pragma once
#include <optional>

#include "runs/numbers.h"
#include "runs/run.h"
#include "table.h"

namespace report {

/// The numbers that cells are made of; nothing: the run does not say.
std::optional<double> samples_per_second(const runs::Run& run);  ///< whole run, all ranks
/// "Callback": steps after the warm-up, all ranks.
std::optional<double> training_samples_per_second(const runs::Run& run);

/// Each says one thing about a run, which is compared with `base` where it is a comparison.
using CellOf = Cell(const runs::Run& run, const runs::Run& base);

CellOf command_cell, setup_cell, nodes_cell, gpus_cell, stage_cell, layers_cell, micro_batch_cell, rank_batch_cell,
    parameters_cell;

CellOf train_loss_cell, last_loss_cell, eval_loss_1_cell, eval_loss_2_cell, eval_loss_3_cell, final_eval_loss_cell,
    exact_match_cell, f1_cell, steps_per_epoch_cell;
/// "12.00, 14.00, 13.50": after each evaluation that has answers.
CellOf every_exact_match_cell, every_f1_cell;

CellOf samples_cell, samples_scale_cell, steps_rate_cell, callback_samples_cell, eval_samples_cell, runtime_cell,
    runtime_scale_cell, workshop_efficiency_cell, efficiency_cell, job_time_cell, step_time_cell;

CellOf allocated_peak_gb_cell, host_peak_gb_cell, allocated_mb_cell, allocated_gb_cell, utilisation_cell, gpu_peak_cell,
    gpu_average_cell, gpu_mode_cell, gpu_peak_gib_cell, gpu_average_gib_cell, memory_scale_cell, cpu_peak_cell,
    cpu_average_cell, cpu_mode_cell;

/// Seconds of a phase of the start, and of the first step.
CellOf start_engine_cell, start_device_cell, start_ranks_cell, start_configuration_cell, start_data_cell,
    start_prediction_cell, start_token_caches_cell, start_preflight_cell, start_groups_cell, start_parameters_cell,
    start_loop_cell, first_step_cell;

}  // namespace report
