// What the pre-flight's measurements mean.
#include <capstan/base/counted.h>
#include <capstan/base/exit_code.h>
#include <capstan/base/text.h>

#include <algorithm>
#include <cmath>
#include <set>

#include "report.h"

namespace preflight {
namespace {

using namespace capstan;

constexpr std::size_t fewest_to_compare = 3;  // with fewer there is no outlier
constexpr std::size_t most_pairs = 4;         // named one by one

std::string rounded(double value) {
  const double scale = value >= 100 ? 1 : 100;
  return number_text(std::round(value * scale) / scale);
}

class Judge {
 public:
  Judge(const PreflightReport& report, const PreflightOptions& options) : report_(report), options_(options) {}

  Verdict verdict() {
    values();
    gate();
    ranks();
    versions();
    outliers("matrix products", "TFLOP/s", &RankMeasures::gemm_tflops);
    outliers("copies to the device", "GB/s", &RankMeasures::to_device_gbps);
    outliers("copies from the device", "GB/s", &RankMeasures::to_host_gbps);
    pairs();
    clocks();
    std::stable_sort(verdict_.findings.begin(), verdict_.findings.end(),
                     [](const Finding& a, const Finding& b) { return a.fails && !b.fails; });
    if (verdict_.exit_code == 0 && fails()) verdict_.exit_code = static_cast<int>(ExitCode::failure);
    verdict_.line = line();
    return verdict_;
  }

 private:
  std::string name(int rank) const { return cat("rank ", rank, " on ", at(rank).host); }
  const RankMeasures& at(int rank) const { return report_.ranks[static_cast<std::size_t>(rank)]; }
  int size() const { return static_cast<int>(report_.ranks.size()); }
  bool fails() const { return !verdict_.findings.empty() && verdict_.findings.front().fails; }
  void fail(const std::string& text) { verdict_.findings.push_back({true, text}); }
  void warn(const std::string& text) { verdict_.findings.push_back({false, text}); }

  void values() {
    for (const Bandwidth& measured : report_.collectives) {
      const auto what = cat(measured.operation, " of ", bytes_text(static_cast<double>(measured.bytes)));
      for (const int rank : measured.wrong) fail(cat(name(rank), " has wrong values after ", what));
    }
  }

  void below_gate(const char* who, const std::optional<Bandwidth>& measured) {
    if (!measured || measured->bus_gbps >= options_.min_bus_gbps) return;
    fail(cat("all-reduce over ", who, " reaches ", rounded(measured->bus_gbps),
             " GB/s, below preflight.min_bus_gbps = ", number_text(options_.min_bus_gbps), slowest_host()));
    verdict_.exit_code = static_cast<int>(ExitCode::bandwidth_low);
  }

  void gate() {
    if (!report_.gate) return;
    if (!report_.gate->problem.empty()) {
      fail(cat("the all-reduce bandwidth cannot be measured: ", report_.gate->problem));
      verdict_.exit_code = static_cast<int>(ExitCode::bandwidth_unmeasurable);
      return;
    }
    below_gate("one rank of each node", report_.gate->one_a_node);
    below_gate("all ranks", report_.gate->all);
  }

  /// The rank whose links are slowest, if pairs were measured.
  std::string slowest_host() const {
    if (report_.pairs.empty()) return {};
    const auto slowest = std::min_element(report_.pairs.begin(), report_.pairs.end(),
                                          [](const auto& a, const auto& b) { return a.gbps < b.gbps; });
    return cat("; the slowest pair is ", name(slowest->a), " and ", name(slowest->b), ", ", rounded(slowest->gbps),
               " GB/s");
  }

  void ranks() {
    constexpr double gib = 1024.0 * 1024 * 1024;
    std::set<std::string> told;  // a folder is shared: one message per host is enough
    for (int rank = 0; rank < size(); ++rank) {
      const RankMeasures& one = at(rank);
      if (!one.problem.empty()) fail(cat(name(rank), ": ", one.problem));
      if (one.clocks.starts_with("throttled")) warn(cat(name(rank), ": the GPU is ", one.clocks));
      if (one.free_bytes >= 0 && one.free_bytes < options_.min_free_gib * gib && told.insert(one.host).second) {
        warn(cat(name(rank), ": run.dir has ", bytes_text(one.free_bytes),
                 " of free space, below "
                 "preflight.min_free_gib = ",
                 number_text(options_.min_free_gib)));
      }
      for (const auto& [link, channels] : one.links) {
        if (!link.starts_with("NET/Socket") || !told.insert("socket").second) continue;
        warn(cat(name(rank), ": NCCL goes over TCP (", link, "), not InfiniBand: see comm.ib_hca and comm.interface"));
      }
    }
  }

  void versions() {
    for (const auto& [what, version] : at(0).versions) {
      for (int rank = 1; rank < size(); ++rank) {
        const auto& theirs = at(rank).versions;
        const auto found = theirs.find(what);
        const std::string other = found == theirs.end() ? "none" : found->second;
        if (other == version) continue;
        const auto text = cat(name(rank), " has ", what, " ", other, ", rank 0 has ", version);
        what == "driver" || what == "GPU" ? warn(text) : fail(text);
        break;  // one is enough
      }
    }
  }

  void outliers(const char* what, const char* unit, double RankMeasures::*number) {
    std::vector<double> all;
    for (const RankMeasures& one : report_.ranks) {
      if (one.*number >= 0) all.push_back(one.*number);
    }
    if (all.size() < fewest_to_compare) return;
    const double middle = median(all);
    for (int rank = 0; rank < size(); ++rank) {
      const double value = at(rank).*number;
      if (value < 0 || value >= options_.least_share * middle) continue;
      warn(cat(name(rank), ": ", what, " at ", rounded(value), " ", unit, ", the median is ", rounded(middle),
               at(rank).clocks.empty() ? "" : cat(" (", at(rank).clocks, ")")));
    }
  }

  void pairs() {
    for (const bool same_node : {true, false}) {
      std::vector<PairBandwidth> these;
      std::vector<double> speeds;
      for (const PairBandwidth& pair : report_.pairs) {
        if ((at(pair.a).node == at(pair.b).node) != same_node) continue;
        these.push_back(pair);
        speeds.push_back(pair.gbps);
      }
      if (these.size() < fewest_to_compare) continue;
      const double middle = median(speeds);
      std::erase_if(these, [&](const PairBandwidth& pair) { return pair.gbps >= options_.least_share * middle; });
      slow_pairs(these, middle, same_node ? "inside a node" : "between nodes");
    }
  }

  /// The rank that is in all slow pairs, if there are several.
  void slow_pairs(const std::vector<PairBandwidth>& slow, double middle, const char* kind) {
    std::map<int, std::size_t> count;
    for (const PairBandwidth& pair : slow) {
      ++count[pair.a];
      ++count[pair.b];
    }
    for (const auto& [rank, pairs] : count) {
      if (pairs < 2 || pairs != slow.size()) continue;
      return warn(cat(name(rank), ": its links ", kind, " are slow, ", rounded(slow.front().gbps),
                      " GB/s, the median is ", rounded(middle)));
    }
    for (std::size_t i = 0; i < slow.size() && i < most_pairs; ++i) {
      warn(cat(name(slow[i].a), " and ", name(slow[i].b), " exchange ", rounded(slow[i].gbps), " GB/s, the median ",
               kind, " is ", rounded(middle),
               i + 1 == most_pairs && slow.size() > most_pairs
                   ? cat(" (", counted(slow.size() - most_pairs, "more slow pair"), ")")
                   : std::string()));
    }
  }

  void clocks() {
    std::vector<double> all;
    for (const RankMeasures& one : report_.ranks) all.push_back(one.clock_s);
    const double middle = median(all);
    std::set<std::string> told;
    for (int rank = 0; rank < size(); ++rank) {
      const double skew = at(rank).clock_s - middle;
      if (std::abs(skew) <= options_.max_skew_s || !told.insert(at(rank).host).second) continue;
      warn(cat(name(rank), ": the host's clock is ", rounded(std::abs(skew)), " s ", skew > 0 ? "fast" : "slow"));
    }
  }

  std::string line() const {
    std::set<std::string> hosts;
    for (const RankMeasures& one : report_.ranks) hosts.insert(one.host);
    std::string text = cat("preflight: ", verdict_.findings.empty() ? "PASS" : fails() ? "FAIL" : "WARN", ": ");
    if (!verdict_.findings.empty()) {
      text += verdict_.findings.front().text;
      const auto more = verdict_.findings.size() - 1;
      return more == 0 ? text : cat(text, " (and ", more, " more)");
    }
    text += cat(counted(size(), "rank"), " on ", counted(hosts.size(), "host"));
    if (!report_.collectives.empty()) {
      double most = 0;
      for (const Bandwidth& measured : report_.collectives) {
        if (measured.operation == "all-reduce") most = std::max(most, measured.bus_gbps);
      }
      text += cat(", all-reduce up to ", rounded(most), " GB/s");
    }
    return text;
  }

  const PreflightReport& report_;
  const PreflightOptions& options_;
  Verdict verdict_;
};

}  // namespace

double bus_bandwidth(const std::string& operation, std::int64_t bytes, int ranks, double seconds) {
  if (seconds <= 0 || ranks < 2) return 0;
  const double moved = (ranks - 1.0) / ranks * (operation == "all-reduce" ? 2 : 1);
  return static_cast<double>(bytes) / seconds * moved / 1e9;
}

double median(std::vector<double> values) {
  if (values.empty()) return 0;
  const auto half = static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), values.begin() + half, values.end());
  const double upper = values[static_cast<std::size_t>(half)];
  if (values.size() % 2 == 1) return upper;
  return (upper + *std::max_element(values.begin(), values.begin() + half)) / 2;
}

Verdict judge(const PreflightReport& report, const PreflightOptions& options) {
  return Judge(report, options).verdict();
}

}  // namespace preflight
