#pragma once
#include <capstan/monitor/monitor.h>

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace console {

/// Everything here returns text without the line's end, and depends only on its arguments.

/// Python's repr(round(number, digits)): "39.41", "1.0".
std::string python_rounded(double number, int digits);

/// Ranks, devices and the number of steps. The model, the batch and the folder stand above, where a run says them with
/// or without this monitor.
std::string start_line(const capstan::monitor::RunStarted& run);

/// Where the time from the command to the end of the first step went, a table. `first_step_s`: from the run's start to
/// there, the first samples included.
std::string start_table(const capstan::monitor::Values& start_s, double first_step_s);

/// What a line of the run's own style says besides the step itself.
struct Progress {
  double seconds = 0;        ///< that the steps since the line before took
  std::int64_t tokens = 0;   ///< of those steps, without padding
  std::int64_t samples = 0;  ///< of those steps
  double seconds_left = 0;   ///< in the run, by what a step took so far
  std::int64_t memory = 0;   ///< bytes that this rank holds: of its GPU, or of the host; 0: not known
};

/// The run's own line of a step, at most 100 columns: "step  20/1200 | loss 3.421 | 12.3k tokens/s | lr 1.2e-05 |
/// ETA 1:05 | mem 1.2 GiB". Samples instead of tokens where no token was counted; `skipped` where there was no update.
std::string progress_line(const capstan::monitor::StepEnded& step, const Progress& progress);

/// NeMo's step line:
/// "Training epoch 0, iteration 0/249 | lr: 1.961e-06 | global_batch_size: 8 | global_step: 0 |
/// reduced_train_loss: 1.315 | train_step_timing in s: 7.126", from step 1 on with " | consumed_samples: 16", with what
/// utilisation_text() says, and with " | val_loss: 0.194" if there is one. Iterations count from 0 in each epoch, up to
/// that epoch's last.
std::string step_line(const capstan::monitor::StepEnded& step, const capstan::monitor::RunStarted& run,
                      std::optional<double> val_loss);

/// Hugging Face's evaluation summary, a Python dict: {'eval_loss': 1.2965, 'eval_runtime': 1.2687,
/// 'eval_samples_per_second': 39.41, 'epoch': 1.0}; scores come before 'epoch'. Keys begin with eval_train_ if
/// training questions were asked.
std::string eval_line(const capstan::monitor::EvalEnded& eval);

/// "Checkpoint after step 40: 1.50 GiB, training waited 0.03 s, written in 1.2 s (1.34 GB/s): runs/a/checkpoints/…". A
/// small one is no measure of the disk and has no rate.
std::string checkpoint_line(const capstan::monitor::CheckpointSaved& saved);

/// Hugging Face's summary at a run's end: {'train_runtime': 125.2999, 'train_samples_per_second': 11.971,
/// 'train_steps_per_second': 0.742, 'train_loss': 0.7039, 'epoch': 2.93}.
std::string run_line(const capstan::monitor::RunEnded& run);

/// progress_line() with a bar: "[#####-----] step 125/250 | loss 1.315 | …".
std::string bar_line(const capstan::monitor::StepEnded& step, const Progress& progress);

/// NeMo's table of resolved arguments: a row for each table of the configuration, with the options that are not
/// defaults: data │ squad(train="a.json", …).
std::string arguments_table(const std::vector<capstan::monitor::Setting>& settings);

/// Job scripts' block at the start and at the end. `time`: seconds since 1970, shown in local time.
std::string job_started(double time);
std::string job_finished(double time, double seconds);

/// Hugging Face's line of a step: {'loss': 0.7039, 'grad_norm': 1.2, 'learning_rate': 4.9e-05, 'epoch': 0.32}. `loss`:
/// the mean of the steps since the line before.
std::string hf_step_line(const capstan::monitor::StepEnded& step, double loss);

/// tqdm's bar: " 34%|###4      | 32/93 [00:41<01:17,  1.28s/it]", with blocks for '#'.
std::string tqdm_line(std::int64_t done, std::int64_t steps, double seconds);

/// " | code 1.234 (31 %) | chat 2.345 (69 %)": of each source of a mixture its loss, where the objective gives it, and
/// its share of the step's tokens. "" where there are none.
std::string sources_text(const capstan::monitor::Values& values);

/// " | gpu_util: 97 % | gpu_mem: 5.49 GiB" from the numbers of the monitor utilisation, "" without them; on CPU ranks
/// " | mem: 1.20 GiB". Means over ranks in the step before.
std::string utilisation_text(const capstan::monitor::Values& values);

}  // namespace console
