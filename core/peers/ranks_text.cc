#include "peers/ranks_text.h"

#include <capstan/base/text.h>

namespace capstan::peers {

std::string ranks_text(const std::vector<int>& ranks) {
  std::vector<std::string> parts;
  for (std::size_t from = 0; from < ranks.size();) {
    std::size_t to = from;
    while (to + 1 < ranks.size() && ranks[to + 1] == ranks[to] + 1) ++to;
    if (to == from + 1) to = from;  // "4, 5", not "4-5"
    parts.push_back(to == from ? cat(ranks[from]) : cat(ranks[from], "-", ranks[to]));
    from = to + 1;
  }
  return cat(ranks.size() == 1 ? "rank " : "ranks ", join(parts));
}

}  // namespace capstan::peers
