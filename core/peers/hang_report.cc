#include "peers/hang_report.h"

#include <capstan/base/text.h>

#include <algorithm>
#include <charconv>

#include "peers/ranks_text.h"

namespace capstan::peers {
namespace {

constexpr std::size_t most_calls = 2;    // a rank's oldest ones; the others are queued after them
constexpr std::size_t most_places = 24;  // a line each; thousands of ranks are in few places

struct Line {
  bool in_flight = false;
  std::string group;
  std::int64_t number = 0;
  std::string text;
};

/// Lines "in|last <tab> group <tab> number <tab> text".
std::vector<Line> parse(const std::string& calls) {
  std::vector<Line> lines;
  for (const std::string& row : split(calls, '\n')) {
    const auto cells = split(row, '\t');
    if (cells.size() != 4) continue;
    Line line{cells[0] == "in", cells[1], 0, cells[3]};
    std::from_chars(cells[2].data(), cells[2].data() + cells[2].size(), line.number);
    lines.push_back(line);
  }
  return lines;
}

/// On this rank the group's call of this number is a different one.
bool differs(const std::vector<Line>& lines, const CollectiveCall& call) {
  return std::any_of(lines.begin(), lines.end(), [&](const Line& line) {
    return line.group == call.group && line.number == call.number && line.text != call.text();
  });
}

bool arrived(const std::vector<Line>& lines, const CollectiveCall& call) {
  if (differs(lines, call)) return false;
  return std::any_of(lines.begin(), lines.end(),
                     [&](const Line& line) { return line.group == call.group && line.number >= call.number; });
}

std::string whereabouts(const std::vector<Line>& lines) {
  if (lines.empty()) return "in no collective, and never was";
  std::vector<std::string> places;
  for (const Line& line : lines) {
    if (line.in_flight && places.size() < most_calls) places.push_back(line.text);
  }
  if (!places.empty()) return cat("in ", join(places, " and "));
  return cat("in no collective; its last was ", lines.back().text);
}

struct Place {
  std::string text;
  std::vector<int> ranks;
  std::vector<std::string> hosts;
};

void put(std::vector<Place>& places, const std::string& text, const Position& rank) {
  auto place = std::find_if(places.begin(), places.end(), [&](const Place& each) { return each.text == text; });
  if (place == places.end()) place = places.insert(places.end(), {text, {}, {}});
  place->ranks.push_back(rank.rank);
  if (std::find(place->hosts.begin(), place->hosts.end(), rank.host) == place->hosts.end()) {
    place->hosts.push_back(rank.host);
  }
}

std::string verb(const Place& place, const char* one, const char* many) { return place.ranks.size() == 1 ? one : many; }

std::string place_text(const Place& place) {
  const std::string who = cat(ranks_text(place.ranks), place.hosts.size() > 3 ? "" : cat(" on ", join(place.hosts)));
  if (place.text.empty()) return cat(who, verb(place, " does not answer", " do not answer"));
  return cat(who, verb(place, " is ", " are "), place.text);
}

std::string conclusion(const std::vector<int>& absent, bool different) {
  if (different) {
    return "the ranks call different collectives: each of a group must call the same ones, in the same order";
  }
  if (absent.empty()) {
    return "all of its ranks are in it: the network or a device does not finish it (capstan preflight measures them)";
  }
  return cat("it waits for ", ranks_text(absent));
}

}  // namespace

std::string describe_calls(CallLog& log) {
  std::string out = "calls\n";
  for (const CollectiveCall& call : log.in_flight())
    out += cat("in\t", call.group, '\t', call.number, '\t', call.text(), '\n');
  if (const auto last = log.last()) out += cat("last\t", last->group, '\t', last->number, '\t', last->text(), '\n');
  return out;
}

std::string hang_report(const CollectiveCall& waiting, const std::vector<Position>& ranks) {
  std::vector<int> there;
  std::vector<int> absent;
  std::vector<Place> places;
  bool different = false;
  for (const Position& rank : ranks) {
    const auto lines = parse(rank.calls);
    if (rank.in_group && arrived(lines, waiting)) {
      there.push_back(rank.rank);
      continue;
    }
    if (rank.in_group) {
      absent.push_back(rank.rank);
      different = different || differs(lines, waiting);
    } else if (lines.empty() || !lines.front().in_flight) {
      continue;
    }
    put(places, rank.calls.empty() ? "" : whereabouts(lines), rank);
  }
  std::string out = cat(waiting.text(), ", has not ended for ", waiting.duration(), ":");
  if (!there.empty()) out += cat("\n    ", ranks_text(there), there.size() == 1 ? " waits in it" : " wait in it");
  for (std::size_t i = 0; i < places.size() && i < most_places; ++i) out += cat("\n    ", place_text(places[i]));
  return out + cat("\n    ", conclusion(absent, different));
}

}  // namespace capstan::peers
