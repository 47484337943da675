#include "lines.h"

#include <capstan/base/counted.h>
#include <capstan/base/text.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>
#include <ctime>
#include <map>
#include <optional>
#include <set>

namespace console {

using namespace capstan;

namespace {

std::string format(const char* pattern, double number) {
  std::array<char, 64> out{};
  std::snprintf(out.data(), out.size(), pattern, number);
  return out.data();
}

constexpr std::size_t name_width = 24;
constexpr std::size_t value_width = 80;
constexpr auto job_line = "===============================";

std::string repeated(const char* text, std::size_t times) {
  std::string all;
  while (times-- > 0) all += text;
  return all;
}

// Display columns of UTF-8 text: continuation bytes take none.
std::size_t columns_of(const std::string& text) {
  return static_cast<std::size_t>(
      std::count_if(text.begin(), text.end(), [](char c) { return (static_cast<unsigned char>(c) & 0xC0U) != 0x80U; }));
}

std::string padded(const std::string& text, std::size_t width) {
  const auto columns = columns_of(text);
  return text + std::string(columns < width ? width - columns : 0, ' ');
}

// Broken after commas; lines after the first are indented.
std::vector<std::string> wrapped(const std::vector<std::string>& parts, std::size_t width) {
  std::vector<std::string> lines(1);
  for (const auto& part : parts) {
    const bool full = columns_of(lines.back()) + columns_of(part) > width && !trim(lines.back()).empty();
    if (full) lines.emplace_back("    ");
    lines.back() += part;
  }
  return lines;
}

struct Row {
  std::string name;
  std::string plugin;
  std::vector<std::string> options;
};

// The name of a table is its kind; "strategy.fsdp" names the plugin too, others by their option plugin.
std::vector<Row> rows_of(const std::vector<monitor::Setting>& settings) {
  std::vector<Row> rows;
  for (const auto& setting : settings) {
    const auto dot = setting.table.find('.');
    const auto kind = setting.table.substr(0, dot);
    const auto plugin = dot == std::string::npos ? "" : setting.table.substr(dot + 1);
    if (rows.empty() || rows.back().name != kind || (!plugin.empty() && rows.back().plugin != plugin))
      rows.push_back({kind, plugin, {}});
    if (setting.key == "plugin") {
      rows.back().plugin = config::value_text(setting.value);
      std::erase(rows.back().plugin, '"');
    } else if (setting.origin.layer != config::Origin::Layer::default_value) {
      rows.back().options.push_back(cat(setting.key, "=", config::value_text(setting.value)));
    }
  }
  std::erase_if(rows, [](const Row& row) { return row.options.empty() && row.plugin.empty(); });
  return rows;
}

std::string clock_text(double time, const char* format) {
  const auto seconds = static_cast<std::time_t>(time);
  std::tm local{};
  localtime_r(&seconds, &local);
  std::array<char, 64> text{};
  std::strftime(text.data(), text.size(), format, &local);
  return text.data();
}

// tqdm's "00:41", "1:02:03".
std::string interval(double seconds) {
  const auto all = static_cast<long long>(std::max(0.0, seconds));
  std::array<char, 64> out{};
  if (all >= 3600) {
    std::snprintf(out.data(), out.size(), "%lld:%02lld:%02lld", all / 3600, all / 60 % 60, all % 60);
  } else {
    std::snprintf(out.data(), out.size(), "%02lld:%02lld", all / 60, all % 60);
  }
  return out.data();
}

// Four significant digits, as NeMo prints: 1.961e-06, 0.194, 7.126.
std::string significant(double number) { return format("%.4g", number); }

double rate(double amount, double seconds) { return seconds > 0 ? amount / seconds : 0.0; }

double rate(std::int64_t amount, double seconds) { return rate(static_cast<double>(amount), seconds); }

// Four digits at most: "0.25", "123", "12.3k", "4.56M".
std::string with_unit(double number) {
  constexpr std::array units{"", "k", "M", "G", "T"};
  std::size_t unit = 0;
  while (number >= 999.5 && unit + 1 < units.size()) {
    number /= 1000;
    ++unit;
  }
  return format("%.3g", number) + units.at(unit);
}

// "1.2 GiB", "980 MiB".
std::string memory(std::int64_t bytes) {
  constexpr double gibibyte = 1073741824, mebibyte = 1048576;
  const auto all = static_cast<double>(bytes);
  return all < gibibyte ? format("%.0f MiB", all / mebibyte) : format("%.1f GiB", all / gibibyte);
}

}  // namespace

std::string python_rounded(double number, int digits) {
  if (!std::isfinite(number)) return format("%f", number);
  std::array<char, 400> out{};
  std::snprintf(out.data(), out.size(), "%.*f", digits, number);
  std::string text = out.data();
  const auto last = text.find_last_not_of('0');
  text.erase(text[last] == '.' ? last + 2 : last + 1);
  return text;
}

std::string start_line(const monitor::RunStarted& run) {
  const auto hosts = std::set<std::string>(run.hosts.begin(), run.hosts.end()).size();
  auto text = cat("Run ", run.name, ": ", counted(run.world_size, "rank"));
  if (hosts > 1) text += cat(" on ", hosts, " hosts");
  text += cat(", device ", run.device);
  if (run.world_size > 1) text += cat(", backend ", run.backend);
  text += cat("; ", thousands(run.steps), plural(run.steps, " step", " steps"), " in all");
  if (run.steps_per_epoch > 0) text += cat(", ", thousands(run.steps_per_epoch), " an epoch");
  if (run.first_step > 0) text += cat(", ", thousands(run.first_step), " done before");
  return text;
}

std::string start_table(const monitor::Values& start_s, double first_step_s) {
  static const std::map<std::string, std::string> words{{"engine", "opening the program and the engine"},
                                                        {"device", "opening the device and its libraries"},
                                                        {"ranks", "meeting the other ranks"},
                                                        {"configuration", "reading configuration and plugins"},
                                                        {"data", "opening data and tokenizer"},
                                                        {"prediction", "predicting memory"},
                                                        {"token_caches", "token caches"},
                                                        {"preflight", "the run's folder, pre-flight"},
                                                        {"groups", "connecting groups of ranks"},
                                                        {"parameters", "filling parameters"},
                                                        {"loop", "preparing the loop"},
                                                        {"first_step", "first samples and step"}};
  auto phases = start_s;
  phases.emplace_back("first_step", first_step_s);
  double sum = 0;
  for (const auto& [phase, seconds] : phases) sum += seconds;
  std::vector<std::vector<std::string>> rows{{"from the command to the first step", "seconds", "share"}};
  for (const auto& [phase, seconds] : phases) {
    const auto found = words.find(phase);
    rows.push_back({found == words.end() ? phase : found->second, format("%.2f", seconds),
                    format("%.0f %%", sum > 0 ? 100 * seconds / sum : 0)});
  }
  rows.push_back({"all", format("%.2f", sum)});
  auto text = table_text(rows);
  text.erase(text.find_last_not_of('\n') + 1);
  return text;
}

std::string step_line(const monitor::StepEnded& step, const monitor::RunStarted& run, std::optional<double> val_loss) {
  const auto epoch_start = step.epoch * run.steps_per_epoch;
  const auto last = std::min(run.steps_per_epoch, step.steps - epoch_start) - 1;
  auto text = cat("Training epoch ", step.epoch, ", iteration ", step.step - epoch_start, "/", last,
                  " | lr: ", significant(step.lr), " | global_batch_size: ", run.global_batch,
                  " | global_step: ", step.step, " | reduced_train_loss: ", significant(step.loss),
                  " | train_step_timing in s: ", significant(step.step_time_s));
  if (step.step > 0) text += cat(" | consumed_samples: ", step.consumed_samples);
  text += sources_text(step.values) + utilisation_text(step.values);
  if (val_loss) text += " | val_loss: " + significant(*val_loss);
  return text;
}

std::string eval_line(const monitor::EvalEnded& eval) {
  const std::string prefix = eval.split == "train" ? "'eval_train_" : "'eval_";
  std::string text = "{";
  if (eval.loss) text += cat(prefix, "loss': ", format("%.4f", *eval.loss), ", ");
  text += cat(prefix, "runtime': ", format("%.4f", eval.runtime_s), ", ", prefix,
              "samples_per_second': ", python_rounded(rate(eval.samples, eval.runtime_s), 3));
  for (const auto& [name, value] : eval.scores) text += cat(", ", prefix, name, "': ", python_rounded(value, 4));
  return text + ", 'epoch': " + python_rounded(eval.epoch_progress, 2) + "}";
}

std::string checkpoint_line(const monitor::CheckpointSaved& saved) {
  constexpr std::int64_t measures_the_disk = std::int64_t{64} << 20;
  const auto speed =
      saved.bytes < measures_the_disk ? "" : cat(" (", significant(saved.bytes_per_second / 1e9), " GB/s)");
  return cat("Checkpoint after step ", saved.step, ": ", bytes_text(static_cast<double>(saved.bytes)),
             ", training waited ", significant(saved.stall_s), " s, written in ", significant(saved.write_s), " s",
             speed, ": ", saved.path);
}

std::string run_line(const monitor::RunEnded& run) {
  return cat("{'train_runtime': ", format("%.4f", run.runtime_s),
             ", 'train_samples_per_second': ", python_rounded(rate(run.samples, run.runtime_s), 3),
             ", 'train_steps_per_second': ", python_rounded(rate(run.steps, run.runtime_s), 3),
             ", 'train_loss': ", format("%.4f", run.mean_loss), ", 'epoch': ", python_rounded(run.epochs, 2), "}");
}

std::string progress_line(const monitor::StepEnded& step, const Progress& progress) {
  const auto steps = std::to_string(step.steps);
  const auto done = std::to_string(step.step + 1);
  const bool has_tokens = progress.tokens > 0;
  const auto amount = static_cast<double>(has_tokens ? progress.tokens : progress.samples);
  auto text = cat("step ", std::string(steps.size() - std::min(steps.size(), done.size()), ' '), done, "/", steps,
                  step.skipped ? " | skipped" : " | loss " + significant(step.loss), sources_text(step.values), " | ",
                  with_unit(rate(amount, progress.seconds)), has_tokens ? " tokens/s" : " samples/s", " | lr ",
                  format("%.2g", step.lr), " | ETA ", duration_text(progress.seconds_left));
  if (progress.memory > 0) text += " | mem " + memory(progress.memory);
  return text;
}

std::string bar_line(const monitor::StepEnded& step, const Progress& progress) {
  constexpr std::int64_t width = 10;
  const auto filled = static_cast<std::size_t>((step.step + 1) * width / step.steps);
  return cat("[", std::string(filled, '#'), std::string(width - filled, '-'), "] ", progress_line(step, progress));
}

std::string arguments_table(const std::vector<monitor::Setting>& settings) {
  auto text = cat("┏", repeated("━", name_width), "┳", repeated("━", value_width), "┓\n┃ ",
                  padded("Argument Name", name_width - 1), "┃ ", padded("Resolved Value", value_width - 1), "┃\n┡",
                  repeated("━", name_width), "╇", repeated("━", value_width), "┩\n");
  for (auto& [name, plugin, options] : rows_of(settings)) {
    for (std::size_t i = 0; i < options.size(); ++i) options[i] += i + 1 < options.size() ? ", " : ")";
    options.insert(options.begin(), plugin + "(");
    if (options.size() == 1) options.front() += ")";
    const auto lines = wrapped(options, value_width - 2);
    for (std::size_t i = 0; i < lines.size(); ++i)
      text += cat("│ ", padded(i == 0 ? name : "", name_width - 1), "│ ", padded(lines[i], value_width - 1), "│\n");
  }
  return text + cat("└", repeated("─", name_width), "┴", repeated("─", value_width), "┘");
}

std::string job_started(double time) {
  return cat(job_line, "\n Job started\n Start time : ", clock_text(time, "%Y-%m-%d %H:%M:%S"), "\n", job_line);
}

std::string job_finished(double time, double seconds) {
  const auto all = std::llround(seconds);
  std::array<char, 64> total{};
  std::snprintf(total.data(), total.size(), "%02lld:%02lld:%02lld", all / 3600, all / 60 % 60, all % 60);
  return cat(job_line, "\n Job finished\n End time   : ", clock_text(time, "%Y-%m-%d %H:%M:%S"),
             "\n Total time : ", total.data(), "\n", job_line);
}

std::string hf_step_line(const monitor::StepEnded& step, double loss) {
  return cat("{'loss': ", python_rounded(loss, 4), ", 'grad_norm': ", number_text(step.grad_norm),
             ", 'learning_rate': ", number_text(step.lr), ", 'epoch': ", python_rounded(step.epoch_progress, 2), "}");
}

std::string tqdm_line(std::int64_t done, std::int64_t steps, double seconds) {
  constexpr std::array parts{"", "▏", "▎", "▍", "▌", "▋", "▊", "▉"};
  constexpr std::int64_t width = 10;
  const auto eighths = 8 * width * done / steps;
  auto bar = repeated("█", static_cast<std::size_t>(eighths / 8)) + parts.at(static_cast<std::size_t>(eighths % 8));
  const double each = done > 0 ? seconds / static_cast<double>(done) : 0.0;
  std::string rate = "?it/s";
  if (each > 0) rate = each > 1 ? format("%5.2fs/it", each) : format("%5.2fit/s", 1 / each);
  return cat(format("%3.0f%%|", 100.0 * static_cast<double>(done) / static_cast<double>(steps)), padded(bar, width),
             "| ", done, "/", steps, " [", interval(seconds), "<", interval(each * static_cast<double>(steps - done)),
             ", ", rate, "]");
}

std::string sources_text(const monitor::Values& values) {
  constexpr std::string_view share = "share_";
  std::string text;
  for (const auto& [name, part] : values) {
    if (!name.starts_with(share)) continue;
    const auto source = name.substr(share.size());
    const auto loss =
        std::find_if(values.begin(), values.end(), [&](const auto& value) { return value.first == "loss_" + source; });
    text += cat(" | ", source, loss == values.end() ? "" : " " + significant(loss->second), " (",
                format("%.0f", 100 * part), " %)");
  }
  return text;
}

std::string utilisation_text(const monitor::Values& values) {
  const auto find = [&](const char* name) -> std::optional<double> {
    const auto found =
        std::find_if(values.begin(), values.end(), [&](const auto& value) { return value.first == name; });
    return found == values.end() ? std::nullopt : std::optional(found->second);
  };
  std::string text;
  if (const auto percent = find("gpu_util_%")) text += cat(" | gpu_util: ", format("%.0f", *percent), " %");
  const auto of_gpu = find("mem_total_MB") ? find("mem_total_MB") : find("mem_reserved_MB");
  if (of_gpu) text += cat(" | gpu_mem: ", bytes_text(*of_gpu * 1048576));
  if (const auto resident = find("mem_rss_MB")) text += cat(" | mem: ", bytes_text(*resident * 1048576));
  return text;
}

}  // namespace console
