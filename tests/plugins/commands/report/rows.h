#pragma once
// Cells as the texts that a table shows.
#include <string>
#include <vector>

#include "plugins/commands/report/table.h"

namespace test {

using Row = std::vector<std::string>;

/// "-" where a value is missing.
inline Row texts(const std::vector<report::Cell>& row) {
  Row out;
  for (const auto& one : row) out.push_back(one.missing.empty() ? one.text : "-");
  return out;
}

}  // namespace test
