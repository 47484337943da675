#include "comm/hang_report.h"

#include <capstan/base/text.h>

#include <charconv>
#include <cmath>

namespace capstan::comm {
namespace {

std::string seconds_text(double seconds) { return cat(number_text(std::round(seconds * 10) / 10), " s"); }

struct Line {
  bool in_flight = false;
  std::string group;
  std::int64_t number = 0;
  std::string seconds;
  std::string text;
};

/// Lines "in|last <tab> group <tab> number <tab> seconds <tab> text".
std::vector<Line> parse(const std::string& calls) {
  std::vector<Line> lines;
  for (const std::string& row : split(calls, '\n')) {
    const auto cells = split(row, '\t');
    if (cells.size() != 5) continue;
    Line line{cells[0] == "in", cells[1], 0, cells[3], cells[4]};
    std::from_chars(cells[2].data(), cells[2].data() + cells[2].size(), line.number);
    lines.push_back(line);
  }
  return lines;
}

bool arrived(const std::vector<Line>& lines, const Call& call) {
  for (const Line& line : lines) {
    if (line.group == call.group && line.number >= call.number) return true;
  }
  return false;
}

std::string whereabouts(const Member& member, const std::vector<Line>& lines) {
  if (member.calls.empty()) return "does not answer";
  std::vector<std::string> places;
  for (const Line& line : lines) {
    if (line.in_flight) places.push_back(cat("in ", line.text, ", for ", line.seconds));
  }
  if (!places.empty()) return join(places, "; ");
  for (const Line& line : lines) return cat("in no collective; its last was ", line.text);
  return "in no collective, and never was";
}

}  // namespace

std::string describe_calls(CallLog& log) {
  std::string out = "calls\n";
  for (const Call& call : log.in_flight()) {
    out += cat("in\t", call.group, '\t', call.number, '\t', seconds_text(call.seconds()), '\t', call.text(), '\n');
  }
  if (const auto last = log.last()) out += cat("last\t", last->group, '\t', last->number, "\t\t", last->text(), '\n');
  return out;
}

std::string hang_report(const Call& waiting, const std::vector<Member>& members) {
  std::vector<std::string> there;
  std::string missing;
  for (const Member& member : members) {
    const auto lines = parse(member.calls);
    if (arrived(lines, waiting)) {
      there.push_back(std::to_string(member.rank));
    } else {
      missing += cat("\n    rank ", member.rank, " on ", member.host, ": ", whereabouts(member, lines));
    }
  }
  std::string out = cat(waiting.text(), ", has not ended for ", seconds_text(waiting.seconds()), ". Ranks ",
                        join(there), " of it are there.");
  if (missing.empty()) return out + " All of its ranks are: the network or the device does not finish it.";
  return out + " Not there:" + missing;
}

}  // namespace capstan::comm
