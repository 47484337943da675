#pragma once
#include <capstan/monitor/monitor.h>

#include <string>
#include <vector>

namespace console {

/// What frames a run's lines. Everything here returns text without the last line's end, and depends on its arguments
/// alone.

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

/// " | gpu_util: 97 % | gpu_mem: 5.49 GiB" from the numbers of the monitor utilisation, "" without them; on CPU ranks
/// " | mem: 1.20 GiB". Means over ranks, of the step before.
std::string utilisation_text(const capstan::monitor::Values& values);

}  // namespace console
