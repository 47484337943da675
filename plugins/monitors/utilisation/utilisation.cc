#include "utilisation.h"

#include <capstan/base/text.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cmath>
#include <condition_variable>

#include "runs/numbers.h"

namespace utilisation {

using namespace capstan;

void Moments::add(double number) {
  ++count_;
  const double before = number - mean_;
  mean_ += before / static_cast<double>(count_);
  squares_ += before * (number - mean_);
}

double Moments::deviation() const { return count_ == 0 ? 0.0 : std::sqrt(squares_ / static_cast<double>(count_)); }

Utilisation::Utilisation(const UtilisationOptions& options, Probes probes)
    : options_(options), probes_(std::move(probes)) {}

void Utilisation::start() {
  if (probes_.gpu) thread_ = std::jthread([this](const std::stop_token& ends) { sample(ends); });
}

void Utilisation::stop() { thread_ = {}; }

void Utilisation::sample(const std::stop_token& ends) {
  const std::chrono::duration<double> between(options_.interval_s);
  std::condition_variable_any never;  // waits only for the end
  std::unique_lock lock(mutex_);
  while (!never.wait_for(lock, ends, between, [&] { return ends.stop_requested(); })) {
    lock.unlock();
    const auto now = probes_.gpu();
    lock.lock();
    if (!now) continue;
    last_ = now;
    used_.add(now->used_mb);
    percent_.add(now->percent);
  }
}

void Utilisation::note_peak(const MemoryNow& now) { peak_mb_ = std::max({peak_mb_, now.peak_mb, now.allocated_mb}); }

monitor::Values Utilisation::step_ended() {
  const auto now = probes_.memory();
  allocated_.add(now.allocated_mb);
  reserved_.add(now.reserved_mb);
  note_peak(now);
  if (!probes_.gpu) return {{"mem_rss_MB", now.allocated_mb}};
  monitor::Values values{
      {"mem_alloc_MB", now.allocated_mb}, {"mem_reserved_MB", now.reserved_mb}, {"mem_peak_MB", now.peak_mb}};
  const std::lock_guard guard(mutex_);
  if (last_) {
    values.emplace_back("mem_total_MB", last_->used_mb);
    values.emplace_back("gpu_util_%", last_->percent);
  }
  return values;
}

monitor::Values Utilisation::summary() {
  if (allocated_.count() == 0) return {};
  if (!probes_.gpu) {
    note_peak(probes_.memory());  // evaluations and saves since the last step may have needed more
    return {{"avg_mem_rss_MB", allocated_.mean()}, {"peak_mem_rss_MB", peak_mb_}};
  }
  monitor::Values values{{"avg_mem_alloc_MB", allocated_.mean()},
                         {"avg_mem_reserved_MB", reserved_.mean()},
                         {"peak_mem_alloc_MB", peak_mb_}};
  const std::lock_guard guard(mutex_);
  if (percent_.count() > 0) {
    values.emplace_back("avg_mem_total_MB", used_.mean());
    values.emplace_back("avg_gpu_util_%", percent_.mean());
    values.emplace_back("std_gpu_util_%", percent_.deviation());
  }
  return values;
}

std::string summary_lines(const monitor::Summary& summary, int ranks) {
  constexpr std::array ours{"avg_mem_alloc_MB", "avg_mem_reserved_MB", "peak_mem_alloc_MB", "avg_mem_total_MB",
                            "avg_gpu_util_%",   "std_gpu_util_%",      "avg_mem_rss_MB",    "peak_mem_rss_MB"};
  std::string text;
  for (const auto& [name, value] : summary.values) {
    if (std::find(ours.begin(), ours.end(), name) == ours.end()) continue;
    text += cat(text.empty() ? "" : ", ", "'", name, "': ", runs::fixed(value, 2));
  }
  if (text.empty()) return text;
  return cat("{", text, "}", ranks > 1 ? cat(" (means over ", ranks, " ranks)") : "", "\n");
}

}  // namespace utilisation
