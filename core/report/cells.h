#pragma once
#include <capstan/base/export.h>

#include <optional>
#include <string>

#include "report/run.h"
#include "report/table.h"

CAPSTAN_BEGIN_NAMESPACE
namespace report {

/// A number with so many decimals.
std::string fixed(double number, int decimals);
/// The numbers that cells are made of; nothing: the run does not say.
std::optional<double> samples_per_second(const Run& run);           ///< whole run, all ranks
std::optional<double> training_samples_per_second(const Run& run);  ///< "Callback": steps after the warm-up, all ranks
std::optional<double> runtime_s(const Run& run);
std::optional<double> gpu0_peak_mib(const Run& run);

/// Each says one thing about a run, which is compared with `base` where it is a comparison.
using CellOf = Cell (*)(const Run& run, const Run& base);

Cell command_cell(const Run& run, const Run& base);
Cell setup_cell(const Run& run, const Run& base);
Cell nodes_cell(const Run& run, const Run& base);
Cell gpus_cell(const Run& run, const Run& base);
Cell stage_cell(const Run& run, const Run& base);
Cell layers_cell(const Run& run, const Run& base);
Cell micro_batch_cell(const Run& run, const Run& base);
Cell rank_batch_cell(const Run& run, const Run& base);
Cell parameters_cell(const Run& run, const Run& base);

Cell train_loss_cell(const Run& run, const Run& base);
Cell last_loss_cell(const Run& run, const Run& base);
Cell eval_loss_1_cell(const Run& run, const Run& base);
Cell eval_loss_2_cell(const Run& run, const Run& base);
Cell eval_loss_3_cell(const Run& run, const Run& base);
Cell final_eval_loss_cell(const Run& run, const Run& base);
Cell exact_match_cell(const Run& run, const Run& base);
Cell f1_cell(const Run& run, const Run& base);
/// "12.00, 14.00, 13.50": after each evaluation that has answers.
Cell every_exact_match_cell(const Run& run, const Run& base);
Cell every_f1_cell(const Run& run, const Run& base);
Cell steps_per_epoch_cell(const Run& run, const Run& base);

Cell samples_cell(const Run& run, const Run& base);
Cell samples_scale_cell(const Run& run, const Run& base);
Cell steps_rate_cell(const Run& run, const Run& base);
Cell callback_samples_cell(const Run& run, const Run& base);
Cell eval_samples_cell(const Run& run, const Run& base);
Cell runtime_cell(const Run& run, const Run& base);
Cell runtime_scale_cell(const Run& run, const Run& base);
Cell workshop_efficiency_cell(const Run& run, const Run& base);
Cell efficiency_cell(const Run& run, const Run& base);
Cell job_time_cell(const Run& run, const Run& base);
Cell step_time_cell(const Run& run, const Run& base);

Cell allocated_peak_gb_cell(const Run& run, const Run& base);
Cell host_peak_gb_cell(const Run& run, const Run& base);
Cell allocated_mb_cell(const Run& run, const Run& base);
Cell allocated_gb_cell(const Run& run, const Run& base);
Cell used_gb_cell(const Run& run, const Run& base);
Cell utilisation_cell(const Run& run, const Run& base);
Cell gpu_peak_cell(const Run& run, const Run& base);
Cell gpu_average_cell(const Run& run, const Run& base);
Cell gpu_mode_cell(const Run& run, const Run& base);
Cell gpu_peak_gib_cell(const Run& run, const Run& base);
Cell gpu_average_gib_cell(const Run& run, const Run& base);
Cell memory_scale_cell(const Run& run, const Run& base);
Cell cpu_peak_cell(const Run& run, const Run& base);
Cell cpu_average_cell(const Run& run, const Run& base);
Cell cpu_mode_cell(const Run& run, const Run& base);

}  // namespace report
CAPSTAN_END_NAMESPACE
