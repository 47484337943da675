#include "report.h"

#include <capstan/base/counted.h>
#include <capstan/base/json.h>
#include <capstan/base/text.h>

#include <algorithm>
#include <cmath>

namespace preflight {
namespace {

using namespace capstan;

// What is asked for beyond these is a slip of the keyboard, and would be measured for days without a word.
constexpr double most_mib = 1 << 20;
constexpr double most_times = 1'000'000;

std::string number(double value) { return value < 0 ? "-" : number_text(std::round(value * 100) / 100); }

// Calls visit(name, field) for each, in the order of the file.
template <class Measures, class Visit>
void each_field(Measures& one, const Visit& visit) {
  visit("host", one.host);
  visit("device", one.device);
  visit("node", one.node);
  visit("versions", one.versions);
  visit("links", one.links);
  visit("clocks", one.clocks);
  visit("gemm_tflops", one.gemm_tflops);
  visit("to_device_gbps", one.to_device_gbps);
  visit("to_host_gbps", one.to_host_gbps);
  visit("write_gbps", one.write_gbps);
  visit("free_bytes", one.free_bytes);
  visit("clock_s", one.clock_s);
  visit("problem", one.problem);
}

Json to_json(const RankMeasures& one) {
  Json json;
  each_field(one, [&](const char* name, const auto& field) { json[name] = field; });
  return json;
}

Json to_json(const Bandwidth& measured) {
  return {{"operation", measured.operation}, {"bytes", measured.bytes},       {"ranks", measured.ranks},
          {"seconds", measured.seconds},     {"bus_gbps", measured.bus_gbps}, {"wrong", measured.wrong}};
}

Json to_json(const Gate& gate) {
  Json json{{"problem", gate.problem}};
  if (gate.one_a_node) json["one_a_node"] = to_json(*gate.one_a_node);
  if (gate.all) json["all"] = to_json(*gate.all);
  return json;
}

std::string spread(const PreflightReport& report, const char* what, const char* unit, double RankMeasures::*value) {
  std::vector<double> all;
  std::size_t least = 0;
  for (std::size_t rank = 0; rank < report.ranks.size(); ++rank) {
    const double one = report.ranks[rank].*value;
    if (one < 0) continue;
    if (all.empty() || one < report.ranks[least].*value) least = rank;
    all.push_back(one);
  }
  if (all.empty()) return {};
  return cat(what, ", ", unit, ": least ", number(report.ranks[least].*value), " (rank ", least, " on ",
             report.ranks[least].host, "), median ", number(median(all)), ", most ",
             number(*std::max_element(all.begin(), all.end())), "\n");
}

std::string collectives_text(const PreflightReport& report) {
  if (report.collectives.empty()) return {};
  std::vector<std::vector<std::string>> rows{{"collective", "size", "ranks", "time, ms", "bus GB/s", "values"}};
  for (const Bandwidth& measured : report.collectives) {
    rows.push_back({measured.operation, bytes_text(static_cast<double>(measured.bytes)), cat(measured.ranks),
                    number(measured.seconds * 1000), number(measured.bus_gbps),
                    measured.wrong.empty() ? "right" : "WRONG"});
  }
  return table_text(rows);
}

std::string links_text(const PreflightReport& report) {
  std::map<std::string, int> links;
  for (const RankMeasures& one : report.ranks) {
    for (const auto& [link, channels] : one.links) links[link] += channels;
  }
  std::vector<std::string> parts;
  for (const auto& [link, channels] : links) parts.push_back(channels > 0 ? cat(link, " x ", channels) : link);
  return parts.empty() ? "" : cat("links: ", join(parts), "\n");
}

}  // namespace

void PreflightOptions::describe(config::OptionTable<PreflightOptions>& t) {
  t.add("before_run", &PreflightOptions::before_run)
      .choices({"auto", "off", "gate", "full"})
      .doc(
          "what `run` measures before it builds the model. gate: all-reduce bandwidth against min_bus_gbps; full: all "
          "that `capstan preflight` does; a FAIL ends the run. auto: gate where min_bus_gbps is set, else off");
  t.add("min_bus_gbps", &PreflightOptions::min_bus_gbps)
      .min(0)
      .doc(
          "bus bandwidth, GB/s, that an all-reduce of gate_mib must reach, on one rank of each node and then on all: "
          "exit code 46 below it, 44 where it cannot be measured; 0: no gate");
  t.add("gate_mib", &PreflightOptions::gate_mib).min(1).max(most_mib).doc("size of the gate's all-reduce, MiB");
  t.add("gate_warmup", &PreflightOptions::gate_warmup)
      .min(0)
      .max(most_times)
      .doc("the gate's all-reduces before the measured ones");
  t.add("gate_iterations", &PreflightOptions::gate_iterations)
      .min(1)
      .max(most_times)
      .doc("the gate's measured all-reduces");
  t.add("largest_mib", &PreflightOptions::largest_mib)
      .min(1)
      .max(most_mib)
      .doc("largest all-reduce, reduce-scatter and all-gather measured otherwise, MiB; the smaller are 1 and 64");
  t.add("pair_mib", &PreflightOptions::pair_mib)
      .min(0)
      .max(most_mib)
      .doc("what each pair of ranks exchanges to find slow links, MiB; 0: pairs are not measured");
  t.add("gemm_size", &PreflightOptions::gemm_size)
      .min(0)
      .max(1 << 18)
      .doc("rows and columns of the multiplied matrices; 0: 8192 in bf16 on a GPU, 1024 in fp32 on a CPU");
  t.add("gemm_seconds", &PreflightOptions::gemm_seconds)
      .above(0)
      .max(3600)
      .doc("how long each rank multiplies matrices");
  t.add("least_share", &PreflightOptions::least_share)
      .min(0)
      .max(1)
      .doc("a rank or a pair below this share of the median is an outlier: WARN");
  t.add("write_mib", &PreflightOptions::write_mib)
      .min(0)
      .max(most_mib)
      .doc("what each rank writes into run.dir and syncs, MiB; 0: the disk is not measured");
  t.add("min_free_gib", &PreflightOptions::min_free_gib).min(0).doc("less free space in run.dir, GiB: WARN");
  t.add("max_skew_s", &PreflightOptions::max_skew_s).above(0).doc("clocks of the hosts that differ by more: WARN");
}

void check_options(const config::Options<PreflightOptions>& options, Diagnostics& faults) {
  if (options->before_run != "gate" || options->min_bus_gbps > 0) return;
  faults.add(options.where(&PreflightOptions::before_run),
             "preflight.before_run is \"gate\", but there is no threshold to measure against",
             "set preflight.min_bus_gbps, such as 5, or preflight.before_run = \"off\"");
}

std::string RankMeasures::serialized() const { return to_json(*this).dump(); }

RankMeasures RankMeasures::parse(const std::string& text) {
  const auto json = Json::parse(text);
  RankMeasures one;
  each_field(one, [&](const char* name, auto& field) { field = json.at(name).get<std::decay_t<decltype(field)>>(); });
  return one;
}

std::string report_text(const PreflightReport& report) {
  std::vector<std::string> versions;
  for (const auto& [what, version] : report.ranks.front().versions) versions.push_back(cat(what, " ", version));
  std::string out = cat("versions: ", join(versions), "\n", links_text(report), collectives_text(report));
  if (!report.pairs.empty()) {
    std::vector<double> speeds;
    for (const PairBandwidth& pair : report.pairs) speeds.push_back(pair.gbps);
    const auto [slowest, fastest] = std::minmax_element(speeds.begin(), speeds.end());
    out += cat("pairs, GB/s: least ", number(*slowest), ", median ", number(median(speeds)), ", most ",
               number(*fastest), " (", counted(speeds.size(), "pair"), ")\n");
  }
  out += spread(report, "matrix products", "TFLOP/s", &RankMeasures::gemm_tflops);
  out += spread(report, "copies to the device", "GB/s", &RankMeasures::to_device_gbps);
  out += spread(report, "copies from the device", "GB/s", &RankMeasures::to_host_gbps);
  out += spread(report, "writes to run.dir, all ranks at once", "GB/s", &RankMeasures::write_gbps);
  const double free = report.ranks.front().free_bytes;
  if (free >= 0) out += cat("free space in run.dir: ", bytes_text(free), "\n");
  return out;
}

std::string report_json(const PreflightReport& report, const Verdict& verdict) {
  Json json{{"line", verdict.line}, {"exit_code", verdict.exit_code}};
  json["findings"] = Json::array();
  for (const Finding& finding : verdict.findings) {
    json["findings"].push_back({{"level", finding.fails ? "FAIL" : "WARN"}, {"text", finding.text}});
  }
  if (report.gate) json["gate"] = to_json(*report.gate);
  json["collectives"] = Json::array();
  for (const Bandwidth& measured : report.collectives) json["collectives"].push_back(to_json(measured));
  json["pairs"] = Json::array();
  for (const PairBandwidth& pair : report.pairs)
    json["pairs"].push_back({{"ranks", {pair.a, pair.b}}, {"gbps", pair.gbps}});
  json["ranks"] = Json::array();
  for (const RankMeasures& one : report.ranks) json["ranks"].push_back(to_json(one));
  return json.dump(2) + "\n";
}

}  // namespace preflight
