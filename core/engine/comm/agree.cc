#include "comm/agree.h"

#include <ATen/ops/empty.h>
#include <ATen/ops/full.h>
#include <ATen/ops/zeros.h>
#include <capstan/base/error.h>
#include <capstan/base/json.h>
#include <capstan/base/log.h>
#include <capstan/base/text.h>

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <cstring>
#include <mutex>
#include <numeric>
#include <thread>

namespace capstan::comm {
namespace {

std::vector<int> ranks_of(const Communicator& communicator) {
  std::vector<int> ranks(static_cast<std::size_t>(communicator.world().size));
  std::iota(ranks.begin(), ranks.end(), 0);
  return ranks;
}

// What became of the work: {"text": …}, or {"faults": [[where, what, fix], …], "context": […]}, or {"bug": …}.
std::string report_of(const std::function<std::string()>& work) {
  Json report;
  try {
    report["text"] = work();
  } catch (const Error& error) {
    report = {{"faults", Json::array()}, {"context", error.context()}};
    for (const auto& fault : error.diagnostics()) report["faults"].push_back({fault.where, fault.what, fault.fix});
  } catch (const std::exception& error) {
    report = {{"bug", error.what()}};
  } catch (...) {
    report = {{"bug", "an exception that is no std::exception"}};
  }
  // A file name may hold any bytes: ill-formed UTF-8 is replaced.
  return report.dump();
}

[[noreturn]] void throw_failure(const Json& report, const std::vector<std::string>& ranks, const std::string& doing) {
  const auto context = ranks.size() == 1
                           ? cat(doing, " on rank ", ranks.front())
                           : cat(doing, " on ranks ", join(ranks), " (what rank ", ranks.front(), " met is shown)");
  if (report.contains("bug")) throw std::logic_error(cat(report.at("bug").get<std::string>(), " while ", context));
  std::vector<Diagnostic> faults;
  for (const auto& fault : report.at("faults"))
    faults.push_back({fault.at(0).text(), fault.at(1).text(), fault.at(2).text()});
  Error error(std::move(faults));
  for (const auto& line : report.at("context")) error.add_context(line.text());
  throw Error(error.add_context(context));
}

// The texts of all ranks, or the failure of those that have one.
std::vector<std::string> results_of(const std::vector<std::string>& reports, const std::vector<int>& ranks,
                                    const std::string& doing) {
  std::vector<std::string> texts;
  std::vector<std::string> failed;
  Json first;
  for (std::size_t i = 0; i < reports.size(); ++i) {
    auto report = Json::parse(reports[i]);
    if (report.contains("text")) {
      texts.push_back(report.at("text").text());
      continue;
    }
    failed.push_back(std::to_string(ranks[i]));
    if (failed.size() == 1) first = std::move(report);
  }
  if (!failed.empty()) throw_failure(first, failed, doing);
  return texts;
}

// What ranks say of their work each second, until it has ended on all of them: so no rank waits long in one call, and a
// slow disk on one of them is no hang.
class Pace {
 public:
  using Exchange = std::function<std::vector<std::string>(const std::string&)>;
  Pace(Exchange exchange, std::vector<int> ranks, bool tells, std::string doing)
      : exchange_(std::move(exchange)), ranks_(std::move(ranks)), tells_(tells), doing_(std::move(doing)) {
    if (ranks_.size() > 1) thread_ = std::thread([this] { run(); });
  }
  Pace(const Pace&) = delete;
  Pace& operator=(const Pace&) = delete;

  /// Works on this rank; returns the results of all.
  std::vector<std::string> results(const std::function<std::string()>& work) {
    auto report = report_of(work);
    if (!thread_.joinable()) return results_of({report}, ranks_, doing_);
    {
      const std::scoped_lock lock(mutex_);
      mine_ = std::move(report);
      changed_.notify_all();
    }
    thread_.join();
    if (failure_) std::rethrow_exception(failure_);
    return results_of(reports_, ranks_, doing_);
  }

 private:
  using Clock = std::chrono::steady_clock;

  void run() {
    try {
      const auto begin = Clock::now();
      auto next = begin + std::chrono::seconds(40);
      do {
        reports_ = exchange_(mine());
        if (tells_ && Clock::now() >= next) {
          next = Clock::now() + std::chrono::seconds(60);
          tell(std::chrono::duration_cast<std::chrono::seconds>(Clock::now() - begin).count());
        }
      } while (std::any_of(reports_.begin(), reports_.end(), [](const auto& text) { return text.empty(); }));
    } catch (...) {
      failure_ = std::current_exception();
    }
  }

  // Empty while the work runs.
  std::string mine() {
    std::unique_lock lock(mutex_);
    changed_.wait_for(lock, std::chrono::seconds(1), [this] { return !mine_.empty(); });
    return mine_;
  }

  void tell(std::int64_t seconds) const {
    std::vector<std::string> busy;
    for (std::size_t i = 0; i < reports_.size(); ++i) {
      if (reports_[i].empty()) busy.push_back(std::to_string(ranks_[i]));
    }
    if (busy.empty()) return;
    const auto who =
        busy.size() == ranks_.size() ? "all ranks" : cat(busy.size() == 1 ? "rank " : "ranks ", join(busy));
    log::warning(cat(doing_, ": ", who, busy.size() == 1 ? " has" : " have", " been at it for ", seconds,
                     " s; if that is long, the file system is slow"));
  }

  const Exchange exchange_;
  const std::vector<int> ranks_;
  const bool tells_;
  const std::string doing_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::string mine_;
  std::vector<std::string> reports_;
  std::exception_ptr failure_;
  std::thread thread_;  // last: it uses all of the others
};

}  // namespace

std::vector<std::string> exchange_texts(Group& group, const std::string& mine, std::string_view label) {
  const auto ranks = static_cast<std::int64_t>(group.size());
  const auto on_device = at::TensorOptions(group.device());
  const auto length = at::full({1}, static_cast<std::int64_t>(mine.size()), on_device.dtype(at::kLong));
  auto lengths = at::empty({ranks}, length.options());
  group.all_gather(lengths, length, label);
  lengths = lengths.cpu();
  const auto* sizes = lengths.const_data_ptr<std::int64_t>();
  const auto longest = *std::max_element(sizes, sizes + ranks);
  const auto bytes = at::zeros({longest}, at::TensorOptions(at::kByte));
  if (!mine.empty()) std::memcpy(bytes.data_ptr(), mine.data(), mine.size());
  auto all = at::empty({ranks * longest}, on_device.dtype(at::kByte));
  group.all_gather(all, bytes.to(group.device()), label);
  all = all.cpu();

  std::vector<std::string> out;
  for (std::int64_t i = 0; i < ranks; ++i) {
    const auto* text = static_cast<const char*>(all.const_data_ptr()) + i * longest;
    out.emplace_back(text, static_cast<std::size_t>(sizes[i]));
  }
  return out;
}

std::vector<std::string> agree(Group& group, const std::string& doing, std::string_view label,
                               const std::function<std::string()>& work) {
  const auto exchange = [&](const std::string& mine) { return exchange_texts(group, mine, label); };
  return Pace(exchange, group.ranks(), group.rank() == 0, doing).results(work);
}

std::shared_ptr<Group> group_of_all(Communicator& communicator, const std::string& name, c10::Device device) {
  return communicator.group(name, ranks_of(communicator), device);
}

std::vector<std::string> agree(Communicator& communicator, const std::string& doing,
                               const std::function<std::string()>& work) {
  const auto exchange = [&](const std::string& mine) { return communicator.exchange(mine); };
  return Pace(exchange, ranks_of(communicator), communicator.world().rank == 0, doing).results(work);
}

std::string from_first_rank(Communicator& communicator, const std::string& doing,
                            const std::function<std::string()>& work) {
  const bool first = communicator.world().rank == 0;
  return agree(communicator, doing, [&] { return first ? work() : std::string(); }).front();
}

}  // namespace capstan::comm
