#include <capstan/base/json.h>

#include <set>

#include "checkpoint/checkpoint.h"
#include "comm/agree.h"

namespace capstan::checkpoint {
namespace {

std::string text_of(const Verdict& found) {
  auto faults = Json::array();
  for (const auto& fault : found.faults.list()) faults.push_back({fault.where, fault.what, fault.fix});
  const Json json{{"readable", found.is_readable}, {"faults", std::move(faults)}};
  return json.dump();
}

}  // namespace

bool verify(const std::filesystem::path& path, Depth depth, Diagnostics& faults, comm::Group* group) {
  const auto mine = verify_share(path, depth, {}, group ? group->rank() : 0, group ? group->size() : 1);
  std::set<std::string> known;  // several ranks may find the same
  const auto add_new = [&](Diagnostic fault) {
    if (known.insert(fault.text()).second) faults.add(std::move(fault));
  };
  if (!group) {
    for (const auto& fault : mine.faults.list()) add_new(fault);
    return mine.is_readable;
  }
  bool is_readable = true;
  for (const auto& text : comm::exchange_texts(*group, text_of(mine), "checkpoint verification")) {
    const auto theirs = Json::parse(text);
    is_readable = is_readable && theirs.at("readable").get<bool>();
    for (const auto& fault : theirs.at("faults")) add_new({fault.at(0).text(), fault.at(1).text(), fault.at(2).text()});
  }
  return is_readable;
}

}  // namespace capstan::checkpoint
