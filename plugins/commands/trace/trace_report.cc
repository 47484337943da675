#include "trace_report.h"

#include <capstan/base/counted.h>
#include <capstan/base/error.h>
#include <capstan/base/json.h>
#include <capstan/base/printable.h>
#include <capstan/base/text.h>

#include <algorithm>
#include <string_view>

#include "runs/numbers.h"

namespace trace {

using namespace capstan;
using runs::fixed;

namespace {

constexpr std::size_t top_kernels = 12, top_transfers = 16;

struct Interval {
  double begin = 0;
  double end = 0;
};

struct TraceSpan {
  std::string name;
  Interval time;
};

struct Work {
  std::string name;
  std::string category;
  Interval time;
  std::int64_t correlation = 0;
};

struct Launch {
  std::int64_t thread = 0;
  double time = 0;
};

// All that a trace has of interest; times in microseconds.
struct Events {
  std::map<std::int64_t, std::vector<TraceSpan>> spans;  // by thread
  std::map<std::int64_t, Launch> launches;               // by correlation
  std::vector<Work> work;                                // the GPU's
  std::vector<Interval> steps;
};

bool contains_any(const std::string& text, std::initializer_list<const char*> parts) {
  return std::any_of(parts.begin(), parts.end(),
                     [&](const char* part) { return text.find(part) != std::string::npos; });
}

bool is_unit(const std::string& span) { return span.starts_with("forward ") || span.starts_with("backward "); }

bool is_collective_span(const std::string& span) {
  return !is_unit(span) && !span.starts_with("step ") && span != "optimizer" && span != "evaluation";
}

// What a transfer between stages carries; empty: the span is none.
std::string cargo_of(const std::string& span) {
  constexpr std::string_view begin = "transfer '";
  if (!span.starts_with(begin) || span.find(" of micro-batch ") == std::string::npos) return {};
  return span.substr(begin.size(), span.size() - begin.size() - 1);
}

std::int64_t integer_of(const Json& object, const char* key) {
  return object.contains(key) && object.at(key).is_number_integer() ? object.at(key).get<std::int64_t>() : 0;
}

// When an event was, in microseconds. No clock has run for longer than `most`, and nothing lasts less than no time.
Interval time_of(const Json& event, const std::string& where) {
  constexpr double most = 1e16;  // three hundred years
  const double begin = event.at("ts").get<double>();
  const double lasts = event.at("dur").get<double>();
  if (begin >= 0 && begin <= most && lasts >= 0 && lasts <= most) return {begin, begin + lasts};
  throw Error(cat("the event '", printable(event.value("name", "")), "' begins at ", number_text(begin),
                  " us and lasts ", number_text(lasts), " us, which no clock gives"),
              "the file is damaged: copy it again, or record another one", where);
}

void add_event(const Json& event, const std::string& where, Events& events) {
  const auto category = event.value("cat", "");
  const auto name = event.value("name", "");
  const auto time = time_of(event, where);
  const auto correlation = event.contains("args") ? integer_of(event.at("args"), "correlation") : 0;
  if (category == "user_annotation") {
    events.spans[integer_of(event, "tid")].push_back({name, time});
    if (name.starts_with("step ")) events.steps.push_back(time);
  } else if (category == "cuda_runtime" || category == "cuda_driver") {
    events.launches[correlation] = {integer_of(event, "tid"), time.begin};
  } else if (category == "kernel" || category == "gpu_memcpy" || category == "gpu_memset") {
    events.work.push_back({name, category, time, correlation});
  }
}

Events events_of(const Json& trace, const std::string& file) {
  Events events;
  std::size_t number = 0;
  for (const auto& event : trace.at("traceEvents")) {
    const auto where = cat(file, ", traceEvents[", number++, "]");
    if (event.value("ph", "") == "X" && event.contains("dur")) add_event(event, where, events);
  }
  return events;
}

// Sorted, without overlaps.
std::vector<Interval> merged(std::vector<Interval> all) {
  std::sort(all.begin(), all.end(), [](const auto& a, const auto& b) { return a.begin < b.begin; });
  std::vector<Interval> out;
  for (const auto& one : all) {
    if (!out.empty() && one.begin <= out.back().end) {
      out.back().end = std::max(out.back().end, one.end);
    } else {
      out.push_back(one);
    }
  }
  return out;
}

double length(const std::vector<Interval>& all) {
  double sum = 0;
  for (const auto& one : all) sum += one.end - one.begin;
  return sum;
}

// How long intervals of two merged lists overlap.
double overlap(const std::vector<Interval>& a, const std::vector<Interval>& b) {
  double sum = 0;
  std::size_t j = 0;
  for (const auto& one : a) {
    while (j < b.size() && b[j].end <= one.begin) ++j;
    for (std::size_t k = j; k < b.size() && b[k].begin < one.end; ++k)
      sum += std::min(one.end, b[k].end) - std::max(one.begin, b[k].begin);
  }
  return sum;
}

// What of `a` is in none of `b`; both merged lists.
std::vector<Interval> without(const std::vector<Interval>& a, const std::vector<Interval>& b) {
  std::vector<Interval> out;
  for (auto rest : a) {
    for (const auto& cut : b) {
      if (cut.end <= rest.begin) continue;
      if (cut.begin >= rest.end) break;
      if (cut.begin > rest.begin) out.push_back({rest.begin, cut.begin});
      rest.begin = std::min(cut.end, rest.end);
    }
    if (rest.begin < rest.end) out.push_back(rest);
  }
  return out;
}

// The innermost span that `fits` on this thread at this time; empty: none.
template <class Fits>
std::string span_at(const Events& events, std::int64_t thread, double time, const Fits& fits) {
  const auto found = events.spans.find(thread);
  if (found == events.spans.end()) return {};
  const TraceSpan* best = nullptr;
  for (const auto& span : found->second) {
    const bool inside = span.time.begin <= time && time <= span.time.end && fits(span.name);
    if (inside && (best == nullptr || span.time.begin > best->time.begin)) best = &span;
  }
  return best == nullptr ? "" : best->name;
}

// The unit, or the update, that launched it. Backward's kernels may come from a thread that has no spans: there is one
// backward at a time, so its span on any thread is meant.
std::string owner_of(const Events& events, const Work& work) {
  const auto found = events.launches.find(work.correlation);
  if (found == events.launches.end()) return {};
  const auto& [thread, time] = found->second;
  const auto owns = [](const std::string& name) { return is_unit(name) || name == "optimizer"; };
  if (auto owner = span_at(events, thread, time, owns); !owner.empty() || events.spans.contains(thread)) return owner;
  const auto is_backward = [](const std::string& name) { return name.starts_with("backward "); };
  for (const auto& [other, spans] : events.spans) {
    if (auto owner = span_at(events, other, time, is_backward); !owner.empty()) return owner;
  }
  return {};
}

// What a kernel of NCCL moves between stages.
std::string cargo_at(const Events& events, const Work& work) {
  const auto found = events.launches.find(work.correlation);
  if (found == events.launches.end()) return {};
  const auto is_transfer = [](const std::string& name) { return !cargo_of(name).empty(); };
  return cargo_of(span_at(events, found->second.thread, found->second.time, is_transfer));
}

void add_gpu(const Events& events, TraceReport& report) {
  std::vector<Interval> collectives, others, all;
  for (const auto& work : events.work) {
    const double ms = (work.time.end - work.time.begin) / 1000;
    auto kind = work.category == "kernel" ? kernel_kind(work.name) : "copies";
    const auto owner = owner_of(events, work);
    if (kind == "elementwise" && owner == "optimizer") kind = "optimizer";
    (kind == "collective" ? collectives : others).push_back(work.time);
    if (const auto cargo = kind == "collective" ? cargo_at(events, work) : ""; !cargo.empty())
      report.transfers[cargo] += ms;
    all.push_back(work.time);
    if (kind != "collective") report.kinds[kind] += ms;
    if (kind != "collective") report.units[owner.empty() ? "elsewhere" : owner] += ms;
    auto& kernel = report.kernels[work.name];
    kernel.ms += ms;
    ++kernel.calls;
    if (work.category == "kernel") ++report.launches;
  }
  collectives = merged(std::move(collectives));
  others = merged(std::move(others));
  report.hidden_ms = overlap(collectives, others) / 1000;
  report.exposed_ms = length(collectives) / 1000 - report.hidden_ms;
  all = merged(std::move(all));
  report.idle_ms = std::max(0.0, report.window_ms - length(all) / 1000);
}

// Without a GPU the spans themselves are the work: a collective within a unit is not the unit's. Those of several
// threads are under way at once, and count once.
void add_cpu(const Events& events, const Interval& window, TraceReport& report) {
  std::vector<Interval> all_collectives, all_work;
  for (const auto& [thread, spans] : events.spans) {
    std::vector<Interval> collectives, work;
    for (const auto& span : spans) {
      const Interval inside{std::max(span.time.begin, window.begin), std::min(span.time.end, window.end)};
      if (is_collective_span(span.name) && inside.begin < inside.end) collectives.push_back(inside);
      if (const auto cargo = cargo_of(span.name); !cargo.empty() && inside.begin < inside.end)
        report.transfers[cargo] += (inside.end - inside.begin) / 1000;
    }
    collectives = merged(std::move(collectives));
    for (const auto& span : spans) {
      if (span.name.starts_with("step ") || is_collective_span(span.name)) continue;
      work.push_back(span.time);
      const double inside = overlap({span.time}, collectives);
      report.units[span.name] += (span.time.end - span.time.begin - inside) / 1000;
    }
    work = without(merged(std::move(work)), collectives);
    all_work.insert(all_work.end(), work.begin(), work.end());
    all_collectives.insert(all_collectives.end(), collectives.begin(), collectives.end());
  }
  all_collectives = merged(std::move(all_collectives));
  report.hidden_ms = overlap(all_collectives, merged(std::move(all_work))) / 1000;
  report.exposed_ms = length(all_collectives) / 1000 - report.hidden_ms;
}

using Ranked = std::vector<std::pair<std::string, double>>;

Ranked ranked(const std::map<std::string, double>& by_name) {
  Ranked all(by_name.begin(), by_name.end());
  std::stable_sort(all.begin(), all.end(), [](const auto& a, const auto& b) { return a.second > b.second; });
  return all;
}

// The transfers that took longest.
Ranked longest(const std::map<std::string, double>& transfers) {
  auto all = ranked(transfers);
  all.resize(std::min(all.size(), top_transfers));
  return all;
}

std::string share_table(const std::string& title, const Ranked& rows, const TraceReport& report) {
  std::vector<std::vector<std::string>> table{{title, "ms a step", "share"}};
  const auto steps = static_cast<double>(std::max<std::int64_t>(1, report.steps));
  for (const auto& [name, ms] : rows) {
    table.push_back(
        {name, fixed(ms / steps, 3), cat(fixed(report.window_ms > 0 ? 100 * ms / report.window_ms : 0.0, 1), " %")});
  }
  return table_text(table);
}

std::string kernels_table(const TraceReport& report) {
  std::vector<std::pair<std::string, TraceReport::Kernel>> all(report.kernels.begin(), report.kernels.end());
  std::stable_sort(all.begin(), all.end(), [](const auto& a, const auto& b) { return a.second.ms > b.second.ms; });
  all.resize(std::min(all.size(), top_kernels));
  std::vector<std::vector<std::string>> table{{"ms a step", "calls a step", "us a call", "kernel"}};
  const auto steps = static_cast<double>(std::max<std::int64_t>(1, report.steps));
  for (const auto& [name, kernel] : all) {
    constexpr std::size_t width = 90;
    const auto calls = static_cast<double>(kernel.calls);
    table.push_back({fixed(kernel.ms / steps, 3), fixed(calls / steps, 1), fixed(1000 * kernel.ms / calls, 1),
                     name.size() > width ? name.substr(0, width - 3) + "..." : name});
  }
  return table_text(table);
}

}  // namespace

std::string kernel_kind(const std::string& name) {
  const auto plain = lower(name);
  if (contains_any(plain, {"nccl"})) return "collective";
  if (contains_any(plain, {"flash", "fmha", "attention", "sdpa"})) return "attention";
  if (contains_any(plain, {"gemm", "gemv", "xmma", "nvjet", "cutlass", "cublas", "splitkreduce"})) return "GEMM";
  return "elementwise";
}

TraceReport read_trace(const std::string& text, const std::string& file) {
  const auto json = try_parse_json(text);
  const auto no_trace = [&] { return Error("this is no Chrome trace", "give a file of a run's folder traces", file); };
  if (!json.is_object() || !json.contains("traceEvents")) throw no_trace();
  Events events;
  try {
    events = events_of(json, file);
  } catch (const JsonError&) {  // a value is of another kind than in a trace
    throw no_trace();
  }
  if (events.steps.empty())
    throw Error("this trace has no step of a run", "record some with [monitor.trace], steps = [3, 4]", file);
  TraceReport report;
  report.steps = static_cast<std::int64_t>(events.steps.size());
  report.gpu = !events.work.empty();
  Interval window = events.steps.front();
  for (const auto& step : events.steps) window = {std::min(window.begin, step.begin), std::max(window.end, step.end)};
  for (const auto& work : events.work) window.end = std::max(window.end, work.time.end);
  report.window_ms = (window.end - window.begin) / 1000;
  if (report.gpu) {
    add_gpu(events, report);
  } else {
    add_cpu(events, window, report);
  }
  return report;
}

std::string trace_text(const TraceReport& report) {
  const auto steps = static_cast<double>(std::max<std::int64_t>(1, report.steps));
  auto text = cat(
      counted(report.steps, "step"), ", ", fixed(report.window_ms / steps, 3), " ms each",
      report.gpu ? cat(", ", fixed(static_cast<double>(report.launches) / steps, 0), " launches a step") : " (no GPU)",
      "\n\n");
  auto kinds = ranked(report.kinds);
  kinds.emplace_back("collectives, exposed", report.exposed_ms);
  kinds.emplace_back("collectives, hidden", report.hidden_ms);
  if (report.gpu) kinds.emplace_back("idle", report.idle_ms);
  text += share_table(report.gpu ? "GPU time" : "time", kinds, report) + "\n";
  text += share_table("unit", ranked(report.units), report);
  if (!report.transfers.empty()) text += "\n" + share_table("sent or received", longest(report.transfers), report);
  return report.gpu ? text + "\n" + kernels_table(report) : text;
}

}  // namespace trace
