#include "peers/watch.h"

#include <capstan/base/error.h>
#include <capstan/base/files.h>
#include <capstan/base/log.h>
#include <capstan/base/text.h>
#include <unistd.h>

#include <optional>
#include <set>
#include <utility>

#include "peers/call_log.h"
#include "peers/failure.h"
#include "peers/heartbeat.h"
#include "peers/patience.h"

namespace capstan::peers {
namespace {

using Clock = std::chrono::steady_clock;
constexpr std::chrono::milliseconds look_every{100};
constexpr std::chrono::seconds own_words{1};  // within which the main thread reports a failure that all ranks throw
constexpr std::chrono::seconds clean_up{30};  // time for a main thread that has seen the failure and is ending

// Whether the process was stopped: SIGSTOP, or ^Z.
bool is_suspended(int process) {
  if (process == 0) return false;
  try {
    const auto stat = read_file(cat("/proc/", process, "/stat"));
    const auto state = stat.rfind(") ");  // the name before may hold anything
    return state != std::string::npos && stat.substr(state + 2, 1) == "T";
  } catch (const Error&) {
    return false;
  }
}

}  // namespace

Watch::Watch(const Options& options, std::string store_owner, std::shared_ptr<Heartbeat> heartbeat,
             std::shared_ptr<CallLog> log, std::shared_ptr<FailureState> failure)
    : options_(options),
      store_owner_(std::move(store_owner)),
      launcher_(options.world.launcher == "local" ? ::getppid() : 0),
      heartbeat_(std::move(heartbeat)),
      log_(std::move(log)),
      failure_(std::move(failure)) {
  thread_ = std::thread([this] { run(); });
}

Watch::~Watch() {
  {
    const std::scoped_lock lock(mutex_);
    stop_ = true;
    changed_.notify_all();
  }
  thread_.join();
}

void Watch::run() {
  std::optional<Clock::time_point> failed;
  auto last_look = Clock::now();
  std::unique_lock lock(mutex_);
  while (!stop_) {
    changed_.wait_for(lock, look_every);
    const auto now = Clock::now();
    if (now - last_look > std::chrono::seconds(2)) awake_since_ = now;  // this process itself was stopped
    last_look = now;
    if (!failed) judge_silence(now);
    if (const auto news = heartbeat_->patience().news()) log::warning(*news);
    const auto failure = failure_->failure();
    if (!failure) continue;
    if (!failed) failed = now;
    act_on(*failure, now - *failed);
  }
  const auto failure = failure_->failure();
  if (failure && !announced_) announce(*failure);  // it came while the main thread was ending
}

void Watch::act_on(const Failure& failure, Clock::duration since) {
  if (!announced_ && since >= own_words) announce(failure);
  if (told_ || !options_.on_stuck || !stuck(since)) return;
  told_ = true;
  log::error("the main thread is stuck and does not notice the failure");
  options_.on_stuck(failure.text());
}

void Watch::judge_silence(Clock::time_point now) {
  if (heartbeat_->unanswered() <= options_.silence) return;
  if (is_suspended(launcher_)) {
    awake_since_ = now;
    if (options_.world.rank == 0 && !std::exchange(suspension_told_, true)) {
      log::warning(cat("process ", launcher_, ", which has started the ranks, is suspended: they wait ",
                       "where they need it (kill -CONT ", launcher_, " continues it)"));
    }
  }
  if (now - awake_since_ <= options_.silence) return;
  failure_->fail({-1,
                  {},
                  cat(store_owner_, " has not answered for ",
                      std::chrono::duration_cast<std::chrono::seconds>(options_.silence).count(), " s")});
}

void Watch::announce(const Failure& failure) {
  announced_ = true;
  if (failure.rank == options_.world.rank || failure_->shared()) return;  // the main thread prints it itself
  const bool tells = failure.teller() == options_.world.rank;
  if (!tells) log::error(cat("first error: ", failure.brief()));
  // Messages below error level go to the rank's log file only.
  const auto level = tells ? log::Level::error : log::Level::debug;
  log::write(level, cat("first error: ", failure.text()));
  std::set<std::string> groups;
  for (const CollectiveCall& call : log_->in_flight()) {
    if (!groups.insert(call.group).second) continue;  // the others of a group wait for its oldest call
    log::write(level, cat("rank ", options_.world.rank, " was in ", call.text(), ", for ", call.duration()));
  }
}

bool Watch::stuck(Clock::duration since_failure) const {
  return since_failure > (failure_->seen() || heartbeat_->closing() ? options_.patience + clean_up : options_.patience);
}

}  // namespace capstan::peers
