#include "report.h"

#include <capstan/base/counted.h>
#include <capstan/base/text.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

namespace preflight {
namespace {

using namespace capstan;

using Json = nlohmann::ordered_json;

std::string number(double value) { return value < 0 ? "-" : number_text(std::round(value * 100) / 100); }

Json to_json(const RankMeasures& one) {
  return {{"host", one.host},
          {"device", one.device},
          {"node", one.node},
          {"versions", one.versions},
          {"links", one.links},
          {"clocks", one.clocks},
          {"gemm_tflops", one.gemm_tflops},
          {"to_device_gbps", one.to_device_gbps},
          {"to_host_gbps", one.to_host_gbps},
          {"write_gbps", one.write_gbps},
          {"free_bytes", one.free_bytes},
          {"clock_s", one.clock_s},
          {"problem", one.problem}};
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

std::string RankMeasures::serialized() const {
  return to_json(*this).dump(-1, ' ', false, Json::error_handler_t::replace);
}

RankMeasures RankMeasures::parse(const std::string& text) {
  const auto json = Json::parse(text);
  RankMeasures one;
  json.at("host").get_to(one.host);
  json.at("device").get_to(one.device);
  json.at("node").get_to(one.node);
  json.at("versions").get_to(one.versions);
  json.at("links").get_to(one.links);
  json.at("clocks").get_to(one.clocks);
  json.at("gemm_tflops").get_to(one.gemm_tflops);
  json.at("to_device_gbps").get_to(one.to_device_gbps);
  json.at("to_host_gbps").get_to(one.to_host_gbps);
  json.at("write_gbps").get_to(one.write_gbps);
  json.at("free_bytes").get_to(one.free_bytes);
  json.at("clock_s").get_to(one.clock_s);
  json.at("problem").get_to(one.problem);
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
  return json.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
}

}  // namespace preflight
