#include "peers/heartbeat.h"

#include <capstan/base/error.h>
#include <capstan/base/log.h>
#include <capstan/base/text.h>

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <mutex>
#include <optional>
#include <thread>
#include <utility>

#include "peers/call_log.h"
#include "peers/failure.h"
#include "peers/failure_note.h"
#include "peers/group_members.h"
#include "peers/hang_report.h"
#include "peers/patience.h"
#include "peers/peers.h"
#include "peers/store.h"

namespace capstan::peers {
namespace {

using Clock = std::chrono::steady_clock;
using std::chrono::milliseconds;
using std::chrono::seconds;

constexpr milliseconds tick{200};
constexpr milliseconds beat{1000};
constexpr milliseconds suspicious_silence{3000};  // three missed beats, once a connection has broken
constexpr milliseconds answer_time{2000};         // time for all ranks to say where they are
constexpr milliseconds farewell{5000};            // time for all ranks to read a failure before the store ends
const char* const goodbye = "bye";

std::string alive_key(int rank) { return cat("alive/", rank); }

class HeartbeatLoop final : public Heartbeat {
 public:
  HeartbeatLoop(HeartbeatSetup setup, std::unique_ptr<Store> store, std::shared_ptr<CallLog> log,
                std::shared_ptr<FailureState> failure)
      : setup_(std::move(setup)),
        store_(std::move(store)),
        log_(std::move(log)),
        failure_(std::move(failure)),
        patience_(me(), setup_.hosts, setup_.options.timeout),
        peers_(setup_.hosts.size()) {}

  /// The thread shares the object, and is detached when the store never answers.
  void start(std::shared_ptr<HeartbeatLoop> self) {
    thread_ = std::thread([self = std::move(self)] { self->run(); });
  }

  void close() override {
    if (!thread_.joinable()) return;
    {
      const std::scoped_lock lock(mutex_);
      closing_since_ = Clock::now();
      changed_.notify_all();
    }
    if (wait_for_end()) {
      thread_.join();
    } else {
      thread_.detach();  // blocked in a system call on a socket without an answer; it owns all that it uses
    }
  }

  bool closing() const override {
    const std::scoped_lock lock(mutex_);
    return closing_since_.has_value();
  }

  void find_failure(const std::string& reason) override {
    {
      const std::scoped_lock lock(mutex_);
      if (!suspicious_since_) suspicious_since_ = Clock::now();
      changed_.notify_all();
    }
    failure_->wait([] { return false; }, setup_.options.silence + 2 * beat);
    const std::scoped_lock lock(mutex_);
    failure_->fail({me(), setup_.options.world.host,
                    cat("it lost the connection to a peer: ", reason, positions_.empty() ? "" : "\n  ", positions_)});
  }

  Patience& patience() override { return patience_; }

  milliseconds unanswered() const override {
    return std::chrono::duration_cast<milliseconds>(Clock::now().time_since_epoch()) - answered_.load();
  }

 private:
  struct Peer {
    std::string value;
    Clock::time_point changed = Clock::now();
  };

  void run() {
    try {
      while (!step()) sleep();
    } catch (const std::exception& error) {
      store_lost(error.what());
    }
    if (failure_->failure()) setup_.backends->abort();
    const std::scoped_lock lock(mutex_);
    ended_ = true;
    changed_.notify_all();
  }

  void sleep() {
    std::unique_lock lock(mutex_);
    changed_.wait_for(lock, tick);
  }

  /// Whether the thread ended: it does, unless the store's socket blocks it forever.
  bool wait_for_end() {
    std::unique_lock lock(mutex_);
    while (!ended_ && unanswered() < setup_.options.silence) changed_.wait_for(lock, tick);
    return ended_;
  }

  int me() const { return setup_.options.world.rank; }
  int size() const { return setup_.options.world.size; }

  std::optional<Clock::time_point> suspicious_since() const {
    const std::scoped_lock lock(mutex_);
    return suspicious_since_;
  }

  /// One round of questions and answers; returns whether it was the last.
  bool step() {
    const auto now = Clock::now();
    forgive_own_sleep(now);
    exchange_failure();
    if (now - last_beat_ >= beat) {
      store_->set(alive_key(me()), Patience::heartbeat(++beats_, *log_));
      last_beat_ = now;
      patience_.look(*store_, log_->in_flight(), now);
      if (watches_peers()) look_at_peers(now);
    }
    watch_for_hangs();
    answered_ = std::chrono::duration_cast<milliseconds>(Clock::now().time_since_epoch());
    if (failure_->failure() && !std::exchange(aborted_, true)) setup_.backends->abort();
    return closing() && may_leave();
  }

  /// A process that was stopped (SIGSTOP, a laptop's lid) must not mistake its own pause for the others' silence.
  void forgive_own_sleep(Clock::time_point now) {
    if (now - last_step_ > 2 * beat) {
      for (Peer& peer : peers_) peer.changed = now;
    }
    last_step_ = now;
  }

  void exchange_failure() {
    if (failure_known_) return;
    if (const auto died = read_failure_note(setup_.options.failure_note)) failure_->fail(*died);
    if (const auto mine = failure_->failure()) {
      store_->set_if_absent("failure", mine->serialized());
    } else if (store_->has({"failure"})) {
      failure_->fail(Failure::parse(store_->get("failure")));
    } else {
      return;
    }
    failure_known_ = true;
    store_->set(cat("informed/", me()), "yes");
  }

  bool watches_peers() const { return me() <= 1 || suspicious_since().has_value(); }

  void look_at_peers(Clock::time_point now) {
    std::vector<std::string> keys;
    keys.reserve(peers_.size());
    for (int rank = 0; rank < size(); ++rank) keys.push_back(alive_key(rank));
    const auto values = store_->get(keys);
    if (me() == 0) patience_.pass_on(*store_, values);
    const auto since = suspicious_since();
    for (int rank = 0; rank < size(); ++rank) {
      Peer& peer = peers_[static_cast<std::size_t>(rank)];
      const std::string& value = values[static_cast<std::size_t>(rank)];
      if (peer.value != value) peer = {value, now};
      if (rank == me() || (me() == 1 && rank > 1 && !since)) continue;
      if (value == goodbye) {
        if (since) fail_with(rank, "it ended while others still communicate with it");
        continue;
      }
      const auto limit = since ? std::min(setup_.options.silence, suspicious_silence) : setup_.options.silence;
      const auto from = since ? std::max(peer.changed, *since) : peer.changed;
      if (now - from > limit)
        fail_with(rank, cat("it has not been heard of for ", seconds_of(now - peer.changed), " s"));
    }
  }

  static std::int64_t seconds_of(Clock::duration time) { return std::chrono::duration_cast<seconds>(time).count(); }

  void fail_with(int rank, const std::string& message) {
    failure_->fail({rank, setup_.hosts[static_cast<std::size_t>(rank)], message});
  }

  /// Asks all ranks where they are if a call of this rank does not end, or a connection broke for an unknown reason.
  void watch_for_hangs() {
    const auto now = Clock::now();
    if (!hung_ && !failure_->failure()) {
      const auto calls = log_->in_flight();
      hung_ = !calls.empty() && patience_.ends(calls.front(), now);
    }
    if (!asked_ && (hung_ || suspicious_since())) {
      store_->set("where are you", "");
      asked_ = now;
    }
    if (!answered_where_ && store_->has({"where are you"})) {
      store_->set(cat("calls/", me()), describe_calls(*log_));
      answered_where_ = true;
    }
    if (!asked_ || now - *asked_ < answer_time || failure_->failure()) return;
    const std::string report = positions();
    if (hung_ && !report.empty()) failure_->fail({-1, {}, report});
    const std::scoped_lock lock(mutex_);
    positions_ = report;
  }

  /// What the ranks answered; empty when this rank's call has ended meanwhile.
  std::string positions() {
    const auto calls = log_->in_flight();
    if (calls.empty()) return {};
    const auto members = setup_.members->of(calls.front().group);
    const bool world = members.empty();  // the store's own waits
    std::vector<Position> ranks;
    for (int rank = 0; rank < size(); ++rank) {
      const bool in_group = world || std::find(members.begin(), members.end(), rank) != members.end();
      const std::string key = cat("calls/", rank);
      ranks.push_back({rank, setup_.hosts[static_cast<std::size_t>(rank)], in_group,
                       store_->has({key}) ? store_->get(key) : std::string()});
    }
    return hang_report(calls.front(), ranks);
  }

  bool may_leave() {
    const auto failure = failure_->failure();
    const bool failed = failure.has_value();
    if (!failed) store_->set(alive_key(me()), goodbye);
    if (failed && !failure_known_) return false;  // once more, to publish it
    if (!setup_.hosts_store) return true;
    if (failed && Clock::now() - *closing_since_ > farewell) return true;
    for (int rank = 0; rank < size(); ++rank) {
      if (rank == me() || (failed && rank == failure->rank)) continue;
      const bool left = store_->get(alive_key(rank)) == goodbye;
      if (!left && !(failed && store_->has({cat("informed/", rank)}))) return false;
    }
    return true;
  }

  void store_lost(const std::string& reason) {
    log::debug(cat("the store's connection: ", reason));
    failure_->fail({-1, {}, cat(setup_.store_owner, " is gone: its connections are closed")});
  }

  const HeartbeatSetup setup_;
  std::unique_ptr<Store> store_;
  std::shared_ptr<CallLog> log_;
  std::shared_ptr<FailureState> failure_;
  Patience patience_;

  // The thread's own.
  std::vector<Peer> peers_;
  Clock::time_point last_beat_{};
  Clock::time_point last_step_ = Clock::now();
  std::int64_t beats_ = 0;
  bool failure_known_ = false, aborted_ = false;
  std::optional<Clock::time_point> asked_;
  bool answered_where_ = false;
  bool hung_ = false;  // a call has outlasted the time limit

  std::atomic<milliseconds> answered_{std::chrono::duration_cast<milliseconds>(Clock::now().time_since_epoch())};
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::optional<Clock::time_point> closing_since_, suspicious_since_;
  std::string positions_;
  bool ended_ = false;
  std::thread thread_;
};

}  // namespace

std::shared_ptr<Heartbeat> start_heartbeat(HeartbeatSetup setup, std::unique_ptr<Store> store,
                                           std::shared_ptr<CallLog> log, std::shared_ptr<FailureState> failure) {
  const auto loop =
      std::make_shared<HeartbeatLoop>(std::move(setup), std::move(store), std::move(log), std::move(failure));
  loop->start(loop);
  return {loop.get(), [loop](Heartbeat* heartbeat) { heartbeat->close(); }};
}

}  // namespace capstan::peers
