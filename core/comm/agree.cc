#include "comm/agree.h"

#include <ATen/ops/empty.h>
#include <ATen/ops/zeros.h>
#include <capstan/base/error.h>
#include <capstan/base/text.h>

#include <algorithm>
#include <cstring>
#include <nlohmann/json.hpp>
#include <numeric>

namespace capstan::comm {
namespace {

using Json = nlohmann::json;

// {"text": …}, or {"faults": [[where, what, fix], …], "context": […]}, or {"bug": …}.
Json report_of(const std::string& mine, const std::exception_ptr& failure) {
  if (!failure) return {{"text", mine}};
  try {
    std::rethrow_exception(failure);
  } catch (const Error& error) {
    auto faults = Json::array();
    for (const auto& fault : error.diagnostics()) faults.push_back({fault.where, fault.what, fault.fix});
    return {{"faults", std::move(faults)}, {"context", error.context()}};
  } catch (const std::exception& error) {
    return {{"bug", error.what()}};
  }
}

Error error_of(const Json& report, const std::string& context) {
  std::vector<Diagnostic> faults;
  for (const auto& fault : report.at("faults")) faults.push_back({fault.at(0), fault.at(1), fault.at(2)});
  Error error(std::move(faults));
  for (const auto& line : report.at("context")) error.add_context(line);
  error.add_context(context);
  return error;
}

[[noreturn]] void throw_failure(const Json& report, const std::vector<std::string>& ranks, const std::string& doing) {
  const auto context = ranks.size() == 1
                           ? cat(doing, " on rank ", ranks.front())
                           : cat(doing, " on ranks ", join(ranks), " (what rank ", ranks.front(), " met is shown)");
  if (report.contains("bug")) throw std::logic_error(cat(report.at("bug").get<std::string>(), " while ", context));
  throw error_of(report, context);
}

std::string dump(const Json& json) {
  // A file name may hold any bytes: ill-formed UTF-8 is replaced.
  return json.dump(-1, ' ', false, Json::error_handler_t::replace);
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
      texts.push_back(report.at("text"));
      continue;
    }
    failed.push_back(std::to_string(ranks[i]));
    if (failed.size() == 1) first = std::move(report);
  }
  if (!failed.empty()) throw_failure(first, failed, doing);
  return texts;
}

}  // namespace

std::vector<std::string> exchange_texts(Group& group, const std::string& mine, std::string_view label) {
  const auto ranks = static_cast<std::int64_t>(group.size());
  auto length = at::empty({1}, at::TensorOptions(at::kLong));
  *length.data_ptr<std::int64_t>() = static_cast<std::int64_t>(mine.size());
  auto lengths = at::empty({ranks}, length.options());
  group.all_gather(lengths, length, label);
  const auto* sizes = lengths.const_data_ptr<std::int64_t>();
  const auto longest = *std::max_element(sizes, sizes + ranks);
  auto bytes = at::zeros({longest}, at::TensorOptions(at::kByte));
  if (!mine.empty()) std::memcpy(bytes.data_ptr(), mine.data(), mine.size());
  auto all = at::empty({ranks * longest}, bytes.options());
  group.all_gather(all, bytes, label);
  std::vector<std::string> out;
  for (std::int64_t i = 0; i < ranks; ++i) {
    const auto* text = static_cast<const char*>(all.const_data_ptr()) + i * longest;
    out.emplace_back(text, static_cast<std::size_t>(sizes[i]));
  }
  return out;
}

std::vector<std::string> agree(Group& group, const std::string& mine, const std::exception_ptr& failure,
                               const std::string& doing, std::string_view label) {
  return results_of(exchange_texts(group, dump(report_of(mine, failure)), label), group.ranks(), doing);
}

std::vector<std::string> agree(Communicator& communicator, const std::string& doing,
                               const std::function<std::string()>& work) {
  std::string mine;
  std::exception_ptr failure;
  try {
    mine = work();
  } catch (const Error&) {
    failure = std::current_exception();
  }
  std::vector<int> ranks(static_cast<std::size_t>(communicator.world().size));
  std::iota(ranks.begin(), ranks.end(), 0);
  return results_of(communicator.exchange(dump(report_of(mine, failure))), ranks, doing);
}

std::string from_first_rank(Communicator& communicator, const std::string& doing,
                            const std::function<std::string()>& work) {
  const bool first = communicator.world().rank == 0;
  return agree(communicator, doing, [&] { return first ? work() : std::string(); }).front();
}

}  // namespace capstan::comm
