#include "stragglers.h"

#include <capstan/base/counted.h>
#include <capstan/base/error.h>
#include <capstan/base/text.h>
#include <capstan/strategy/program.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <iomanip>
#include <iterator>
#include <limits>
#include <utility>

namespace planning {
namespace {

using namespace capstan;
using strategy::Action;
using Kind = Action::Kind;

constexpr auto never = std::numeric_limits<double>::infinity();

// From 0 to 1, the same for the same numbers (SplitMix64, Steele et al. 2014).
double uniform(std::uint64_t seed, std::uint64_t rank, std::uint64_t action) {
  auto x = seed * 0x9e3779b97f4a7c15ULL + rank * 0xbf58476d1ce4e5b9ULL + action * 0x94d049bb133111ebULL;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9ULL;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebULL;
  return static_cast<double>((x ^ (x >> 31)) >> 11) * 0x1p-53;
}

// Ranks that wait for each other in every action: those of one position on pp in some neighbouring data ranks.
struct Together {
  int first = 0;
  int count = 1;
  double computing = 1;  ///< how many times as long it takes
  double links = 1;      ///< the same of what is sent and received; infinite where one of them is lost
  bool is_disturbed() const { return computing > 1 || links > 1; }
};

Together together(int first, int count, const Disturbances& disturbances) {
  Together ranks{first, count};
  const auto most = [&](const std::map<int, double>& by_rank, double& factor) {
    for (auto one = by_rank.lower_bound(first); one != by_rank.end() && one->first < first + count; ++one)
      factor = std::max(factor, one->second);
  };
  most(disturbances.slow_gpus, ranks.computing);
  most(disturbances.slow_links, ranks.links);
  const auto lost = disturbances.lost_links.lower_bound(first);
  if (lost != disturbances.lost_links.end() && *lost < first + count) ranks.links = never;
  return ranks;
}

double seconds_of_program(const plan::PositionTime& position) {
  double sum = 0;
  for (const auto& action : position.program) {
    if (action.kind != Kind::send_states && action.kind != Kind::send_gradients) sum += position.seconds_of(action);
  }
  return sum;
}

void check_ranks(int gpus, const Disturbances& disturbances) {
  const auto check = [&](int rank) {
    if (rank >= 0 && rank < gpus) return;
    throw Error(cat("rank ", rank, " is not one of ", counted(gpus, "GPU")), cat("name one from 0 to ", gpus - 1));
  };
  for (const auto& [rank, factor] : disturbances.slow_gpus) check(rank);
  for (const auto& [rank, factor] : disturbances.slow_links) check(rank);
  for (const int rank : disturbances.lost_links) check(rank);
}

// All ranks of a step.
class Simulation {
 public:
  Simulation(const plan::Estimate& estimate, int gpus, const Disturbances& disturbances)
      : estimate_(estimate),
        positions_(estimate.positions),
        disturbances_(disturbances),
        count_(estimate.split_ranks * estimate.gather_ranks),
        per_position_(gpus / static_cast<int>(estimate.positions.size())) {
    CAPSTAN_ASSERT(!positions_.empty() && per_position_ % count_ == 0);
    for (const auto& position : positions_) programs_.push_back(position.program);
  }

  SimulatedStep run() {
    bool has_undisturbed = false;
    for (int first = 0; first < per_position_; first += count_) {
      std::vector<Together> ranks;
      for (std::size_t p = 0; p < positions_.size(); ++p)
        ranks.push_back(together(static_cast<int>(p) * per_position_ + first, count_, disturbances_));
      const bool is_like_others =
          disturbances_.jitter <= 0 &&
          std::none_of(ranks.begin(), ranks.end(), [](const auto& one) { return one.is_disturbed(); });
      if (is_like_others && has_undisturbed) continue;
      add(ranks);
      has_undisturbed = has_undisturbed || is_like_others;
    }
    end();
    return std::move(step_);
  }

 private:
  // The steps of all positions that some neighbouring data ranks take.
  void add(const std::vector<Together>& ranks) {
    const auto timeline = strategy::timeline_of(
        programs_,
        {[&](auto p, auto place, const auto& action) { return seconds_of(ranks[p], positions_[p], place, action); },
         [&](auto from, auto to, const auto& send) {
           const auto links = std::max(ranks[from].links, ranks[to].links);
           return links == never ? never : positions_[from].seconds_of(send) * links;
         }});
    CAPSTAN_ASSERT(timeline.stuck.empty());
    for (std::size_t p = 0; p < ranks.size(); ++p) {
      const auto& row = timeline.rows[p];
      const auto lost = std::find_if(row.begin(), row.end(), [](const auto& slot) { return slot.end == never; });
      const auto last_end = lost == row.begin() ? 0 : std::prev(lost)->end;
      if (lost == row.end()) {
        step_.last_end = std::max(step_.last_end, last_end);
      } else {
        const auto at = lost->begin == never ? strategy::receive_for(lost->action).value() : lost->action;
        step_.stuck.push_back({ranks[p].first, ranks[p].count, strategy::text(at), last_end});
      }
    }
  }
  // The time of an action at this place of the position's program, infinite where it needs a link that is lost.
  double seconds_of(const Together& ranks, const plan::PositionTime& position, std::size_t place,
                    const Action& action) const {
    double computing = 0, waiting = 0;
    for (const auto& one : position.actions) {
      if (one.action.kind != action.kind || one.action.stage != action.stage) continue;
      computing += one.computing, waiting += one.waiting;
    }
    const bool needs_others = waiting > 0 || estimate_.gather_ranks > 1;  // who gather parameters, in each micro-step
    if (needs_others && ranks.links == never) return never;
    return computing * slowest(ranks, place) + (waiting > 0 ? waiting * ranks.links : 0);
  }
  // Those that wait for each other take as long as the slowest.
  double slowest(const Together& ranks, std::size_t place) const {
    if (disturbances_.jitter <= 0) return ranks.computing;
    double most = 0;
    for (int rank = ranks.first; rank < ranks.first + ranks.count; ++rank) {
      const auto slow = disturbances_.slow_gpus.find(rank);
      const auto drawn = uniform(disturbances_.seed, static_cast<std::uint64_t>(rank), place);
      most = std::max(most,
                      (slow == disturbances_.slow_gpus.end() ? 1 : slow->second) * (1 + disturbances_.jitter * drawn));
    }
    return most;
  }
  // What follows the programs: what is left of sums and gathers, and the update, where the most is left.
  void end() {
    const auto all = together(0, per_position_ * static_cast<int>(positions_.size()), disturbances_);
    const auto longest = std::max_element(positions_.begin(), positions_.end(),
                                          [](const auto& a, const auto& b) { return a.seconds < b.seconds; });
    const auto computing = seconds_of_program(*longest);
    const auto not_hidden = [&](double moving) { return std::max(0.0, moving - computing); };
    auto rest = longest->seconds - computing;
    if (longest->moving > 0) rest += not_hidden(longest->moving * all.links) - not_hidden(longest->moving);
    std::sort(step_.stuck.begin(), step_.stuck.end(),
              [](const auto& a, const auto& b) { return a.first_rank < b.first_rank; });
    step_.seconds = step_.stuck.empty() ? step_.last_end + rest : never;
    double working = 0;
    for (const auto& position : positions_) {
      const auto longer = disturbances_.jitter / 2 * seconds_of_program(position);
      working += (position.seconds + longer) / static_cast<double>(positions_.size());
    }
    step_.waiting = std::isfinite(step_.seconds) ? std::max(0.0, 1 - working / step_.seconds) : 1;
  }

  const plan::Estimate& estimate_;
  const std::vector<plan::PositionTime>& positions_;
  std::vector<strategy::Program> programs_;  // by position
  const Disturbances& disturbances_;
  int count_;         // ranks that wait for each other in every action
  int per_position_;  // ranks of a position on pp
  SimulatedStep step_;
};

std::string milliseconds(double seconds) { return cat(std::fixed, std::setprecision(1), seconds * 1e3, " ms"); }

std::string words_of(const Disturbances& disturbances) {
  std::vector<std::string> words;
  for (const auto& [rank, factor] : disturbances.slow_gpus)
    words.push_back(cat("rank ", rank, " computes ", number_text(factor), " times as long"));
  for (const auto& [rank, factor] : disturbances.slow_links)
    words.push_back(cat("what rank ", rank, " sends and receives takes ", number_text(factor), " times as long"));
  for (const int rank : disturbances.lost_links) words.push_back(cat("rank ", rank, " has lost its link"));
  if (disturbances.jitter > 0) {
    words.push_back(cat("each action takes up to ", number_text(100 * disturbances.jitter), " % longer (seed ",
                        disturbances.seed, ")"));
  }
  return join(words, "; ");
}

// Who waits where, where a link is lost.
std::string stuck_text(const SimulatedStep& step, int gpus) {
  constexpr std::size_t most_lines = 12;
  std::vector<std::vector<std::string>> rows{{"ranks", "stand at", "from"}};
  int count = 0;
  for (const auto& one : step.stuck) {
    count += one.ranks;
    if (rows.size() > most_lines) continue;
    const auto last = one.first_rank + one.ranks - 1;
    rows.push_back(
        {last == one.first_rank ? cat(last) : cat(one.first_rank, " to ", last), one.action, milliseconds(one.since)});
  }
  auto text = step.stuck.empty() ? "" : table_text(rows);
  if (step.stuck.size() > most_lines)
    text += cat("… and ", counted(step.stuck.size() - most_lines, "more line", "more lines"), "\n");
  if (gpus > count) {
    text += cat("the other ", counted(gpus - count, "rank"), ": wait from ", milliseconds(step.last_end),
                " on, when the last has computed all, for the sums of gradients\n");
  }
  return text;
}

}  // namespace

SimulatedStep simulate(const plan::Estimate& estimate, int gpus, const Disturbances& disturbances) {
  check_ranks(gpus, disturbances);
  return Simulation(estimate, gpus, disturbances).run();
}

void read_factor(const std::string& text, const std::string& option, std::map<int, double>& by_rank) {
  int rank = 0;
  double factor = 0;
  const auto* end = text.data() + text.size();
  auto read = std::from_chars(text.data(), end, rank);
  const bool has_rank = read.ec == std::errc() && read.ptr != end && *read.ptr == '=';
  if (has_rank) read = std::from_chars(read.ptr + 1, end, factor);
  if (!has_rank || read.ec != std::errc() || read.ptr != end || !(factor >= 1 && factor < 1e6)) {
    throw Error(cat(option, " ", text, ": not a rank and how many times as long it takes, 1 or more"),
                cat("write it as ", option, " 17=1.3"));
  }
  if (!by_rank.emplace(rank, factor).second)
    throw Error(cat(option, " names rank ", rank, " twice"), "leave one of them out");
}

std::string simulation_text(const plan::Estimate& estimate, int gpus, const Disturbances& disturbances) {
  const auto even = simulate(estimate, gpus, {});
  const auto step = simulate(estimate, gpus, disturbances);
  auto text = cat("as a prediction of all ", counted(gpus, "rank"), ", where ", words_of(disturbances), ":\n");
  if (!std::isfinite(step.seconds)) return text + "the step does not end\n" + stuck_text(step, gpus);
  const auto share = [](double part) { return cat(std::fixed, std::setprecision(1), 100 * part, " %"); };
  return text + cat("a step takes ", milliseconds(step.seconds), " instead of ", milliseconds(even.seconds), ", ",
                    share(step.seconds / even.seconds - 1), " longer; ranks have nothing to do for ",
                    share(step.waiting), " of it on average, otherwise for ", share(even.waiting), "\n");
}

}  // namespace planning
