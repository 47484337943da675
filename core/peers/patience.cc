#include "peers/patience.h"

#include <capstan/base/text.h>

#include <algorithm>
#include <utility>

#include "base/disk_wait.h"
#include "peers/ranks_text.h"
#include "peers/store.h"

namespace capstan::peers {
namespace {

using std::chrono::seconds;

// "0 3<tab>writing /runs/x/metrics.jsonl": which ranks are at a disk, and what the first of them does. Empty: none is.
const char* const at_disk_key = "at a disk";

constexpr seconds soon{1};         // calls that take less are not looked at
constexpr seconds first_news{40};  // sooner where the time limit is short
constexpr seconds between_news{60};

}  // namespace

// A rank that is inside a call waits too, whatever its other threads do.
std::string Patience::heartbeat(std::int64_t number, const CallLog& log) {
  const auto doing = log.is_running() ? std::nullopt : DiskWait::oldest();
  return doing ? cat(number, " ", *doing) : std::to_string(number);
}

void Patience::pass_on(Store& store, const std::vector<std::string>& heartbeats) {
  std::string ranks;
  std::string doing;
  for (std::size_t rank = 0; rank < heartbeats.size(); ++rank) {
    const auto space = heartbeats[rank].find(' ');
    if (space == std::string::npos) continue;
    if (ranks.empty()) doing = heartbeats[rank].substr(space + 1);
    ranks += cat(ranks.empty() ? "" : " ", rank);
  }
  auto text = ranks.empty() ? std::string() : cat(ranks, '\t', doing);
  if (text == passed_on_) return;
  store.set(at_disk_key, text);
  passed_on_ = std::move(text);
}

void Patience::look(Store& store, const std::vector<CollectiveCall>& calls, Clock::time_point now) {
  // At most what two beats take: a process that was suspended has seen nothing meanwhile.
  const auto passed = std::min<Clock::duration>(now - std::exchange(looked_, now), seconds(2));
  if (calls.empty() || now - calls.front().start < soon || !store.has({at_disk_key})) return;
  if (calls.front().start != call_) excused_ = {};
  call_ = calls.front().start;
  const auto named = store.get(at_disk_key);
  if (named.empty()) return;
  excused_ += passed;
  excused_at_ = now.time_since_epoch();
  const auto waited = now - call_;
  if (waited < std::min<Clock::duration>(first_news, timeout_ / 2) || now - told_ < between_news) return;
  told_ = now;
  tell(named, std::chrono::duration_cast<seconds>(waited).count());
}

bool Patience::ends(const CollectiveCall& call, Clock::time_point now) const {
  return now - call.start > timeout_ + (call.start == call_ ? excused_ : Clock::duration{});
}

// The first rank that is not at a disk itself.
void Patience::tell(const std::string& named, std::int64_t waited_s) {
  const auto tab = named.find('\t');
  std::vector<int> ranks;
  for (const auto& rank : split(named.substr(0, tab), ' ')) ranks.push_back(std::stoi(rank));
  int teller = 0;
  while (std::find(ranks.begin(), ranks.end(), teller) != ranks.end()) ++teller;
  if (teller != rank_) return;
  const std::scoped_lock lock(mutex_);
  news_ = cat("ranks have waited ", waited_s, " s for ", ranks_text(ranks), " (",
              hosts_[static_cast<std::size_t>(ranks.front())], "), ", ranks.size() == 1 ? "" : "the first of which is ",
              named.substr(tab + 1), "; if that is long, the file system is slow");
}

std::optional<std::string> Patience::news() {
  const std::scoped_lock lock(mutex_);
  return std::exchange(news_, {});
}

}  // namespace capstan::peers
