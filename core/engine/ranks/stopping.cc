#include "ranks/stopping.h"

#include <capstan/base/exit_code.h>
#include <capstan/base/text.h>

#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <string_view>

#include "train/run.h"

namespace capstan::ranks {
namespace {

struct Handlers {
  step::Stop stop;
  std::atomic<bool> asks{false};
  std::atomic<bool> speaks{false};  // this rank says what an interruption does, once
  std::atomic<int> requeue_exit_code{0};
};

Handlers handlers;

constexpr std::string_view first_words =
    "capstan: SIGINT: the run stops after this step and saves what its options say; a second one ends it at once\n";

// Calls only what a handler of signals may call.
extern "C" void on_signal(int signal) {
  const int before = errno;
  const int interrupted = static_cast<int>(ExitCode::interrupted);
  if (!handlers.asks.load()) _exit(signal == SIGINT ? interrupted : handlers.requeue_exit_code.load());
  handlers.stop.ask(signal);
  if (signal == SIGINT && handlers.stop.asks() > 1) _exit(interrupted);
  if (signal == SIGINT && handlers.speaks.exchange(false)) {
    [[maybe_unused]] const auto said = ::write(STDERR_FILENO, first_words.data(), first_words.size());
  }
  errno = before;
}

/// A command's output, if it succeeds within ten seconds; otherwise it is killed.
std::optional<std::string> output_of(const std::string& command) {
  std::FILE* pipe = ::popen(cat("exec timeout -s KILL 10 ", command, " 2>/dev/null").c_str(), "re");
  if (pipe == nullptr) return std::nullopt;
  std::string text;
  std::array<char, 256> buffer{};
  while (const auto count = std::fread(buffer.data(), 1, buffer.size(), pipe)) text.append(buffer.data(), count);
  if (::pclose(pipe) != 0) return std::nullopt;
  return text;
}

bool is_number(const std::string& text) {
  return !text.empty() && text.size() < 18 && text.find_first_not_of("0123456789") == std::string::npos;
}

}  // namespace

void catch_signals(int requeue_exit_code) {
  handlers.requeue_exit_code = requeue_exit_code;
  struct sigaction action {};
  action.sa_handler = on_signal;
  action.sa_flags = SA_RESTART;
  sigemptyset(&action.sa_mask);
  for (const int signal : {SIGINT, SIGTERM, SIGUSR1, SIGUSR2}) sigaction(signal, &action, nullptr);
  // A terminal that closes stops the run like any other request; under nohup it is ignored, and stays so.
  struct sigaction before {};
  if (sigaction(SIGHUP, nullptr, &before) == 0 && before.sa_handler != SIG_IGN) sigaction(SIGHUP, &action, nullptr);
}

step::Stop& ask_on_signals(bool speaks) {
  handlers.speaks = speaks;
  handlers.asks = true;
  return handlers.stop;
}

std::optional<double> seconds_left(const std::string& text) {
  auto clock = trim(text);
  double days = 0;
  if (const auto dash = clock.find('-'); dash != std::string::npos) {
    if (!is_number(clock.substr(0, dash))) return std::nullopt;
    days = std::stod(clock.substr(0, dash));
    clock.erase(0, dash + 1);
  }
  const auto parts = split(clock, ':');
  if (parts.empty() || parts.size() > 3 || !std::all_of(parts.begin(), parts.end(), is_number)) return std::nullopt;
  double seconds = 0;
  for (const auto& part : parts) seconds = seconds * 60 + std::stod(part);
  return days * 86400 + seconds;
}

std::optional<step::Stop::Clock::time_point> job_deadline(const launch::Environment& env) {
  const auto job = env("SLURM_JOB_ID").value_or("");
  if (!is_number(job)) return std::nullopt;
  std::optional<double> left;
  const auto end = env("SLURM_JOB_END_TIME").value_or("");
  if (is_number(end)) {
    const auto now = std::chrono::system_clock::now().time_since_epoch();
    left = std::stod(end) - std::chrono::duration<double>(now).count();
  } else if (const auto said = output_of(cat("squeue --noheader --jobs ", job, " --format %L"))) {
    left = seconds_left(*said);
  }
  if (!left) return std::nullopt;
  constexpr double longest_s = 10.0 * 365 * 86400;  // "unlimited" as an end in the far future must not overflow a clock
  if (*left > longest_s) return std::nullopt;
  return step::Stop::Clock::now() +
         std::chrono::duration_cast<step::Stop::Clock::duration>(std::chrono::duration<double>(*left));
}

Ending end_stopped(const train::RunEnd& run, const step::Stop& stop, comm::Communicator& communicator) {
  const auto reasons = communicator.exchange(stop.reason());
  const auto asked = std::find_if(reasons.begin(), reasons.end(), [](const auto& text) { return !text.empty(); });
  const bool by_person = std::find(reasons.begin(), reasons.end(), "SIGINT") != reasons.end();
  Ending ending;
  ending.message = cat("capstan: stopped ",
                       by_person                ? "by SIGINT"
                       : asked == reasons.end() ? "since the job's time is nearly over"
                                                : "by " + *asked,
                       " ", run.when);
  if (!run.resumable) {
    ending.exit_code = static_cast<int>(ExitCode::interrupted);
    ending.message += "; a later run starts from the beginning ([checkpoint] every_steps would let it continue)";
  } else if (by_person || run.requeue_exit_code == 0) {
    ending.exit_code = by_person ? static_cast<int>(ExitCode::interrupted) : 0;
    ending.by_person = by_person;
    if (by_person) ending.message += cat("; exit code ", ending.exit_code);
    ending.message += "; checkpoint.resume=auto continues from its newest checkpoint";
  } else {
    ending.exit_code = run.requeue_exit_code;
    ending.message += cat("; exit code ", run.requeue_exit_code, " asks to be queued again");
  }
  ending.message += "\n";
  return ending;
}

}  // namespace capstan::ranks
