#include <capstan/base/error.h>
#include <capstan/base/text.h>

#include <algorithm>
#include <cstdlib>

#include "launch/launch.h"

namespace capstan::launch {
namespace {

[[noreturn]] void malformed(const std::string& text) {
  throw Error(cat("the host list '", text, "' cannot be read"), "SLURM_STEP_NODELIST and SLURM_JOB_NODELIST hold it");
}

/// Commas outside brackets separate.
std::vector<std::string> split_outside_brackets(const std::string& text) {
  std::vector<std::string> parts(1);
  int depth = 0;
  for (const char c : text) {
    if (c == '[') ++depth;
    if (c == ']') --depth;
    if (depth < 0 || depth > 1) malformed(text);
    if (c == ',' && depth == 0) {
      parts.emplace_back();
    } else {
      parts.back() += c;
    }
  }
  if (depth != 0) malformed(text);
  return parts;
}

int number(const std::string& digits, const std::string& whole) {
  const auto value = number_in<int>(digits);
  if (!value) malformed(whole);
  return *value;
}

std::string padded(int value, std::size_t width) {
  std::string digits = std::to_string(value);
  return digits.size() >= width ? digits : std::string(width - digits.size(), '0') + digits;
}

/// "01-03,7" -> 01 02 03 7.
std::vector<std::string> expand_range(const std::string& range, const std::string& whole) {
  std::vector<std::string> numbers;
  for (const std::string& part : split(range, ',')) {
    const auto ends = split(part, '-');
    if (ends.empty() || ends.size() > 2) malformed(whole);
    const int first = number(ends.front(), whole);
    const int last = number(ends.back(), whole);
    if (last < first) malformed(whole);
    for (int i = first; i <= last; ++i) numbers.push_back(padded(i, ends.front().size()));
  }
  if (numbers.empty()) malformed(whole);
  return numbers;
}

/// One name with any number of brackets: "r[1-2]n[1-2]-ib".
std::vector<std::string> expand_name(const std::string& name, const std::string& whole) {
  const auto open = name.find('[');
  if (open == std::string::npos) return {name};
  const auto close = name.find(']', open);
  std::vector<std::string> names;
  for (const std::string& middle : expand_range(name.substr(open + 1, close - open - 1), whole)) {
    for (const std::string& rest : expand_name(name.substr(close + 1), whole)) {
      names.push_back(cat(name.substr(0, open), middle, rest));
    }
  }
  return names;
}

}  // namespace

std::vector<int> expand_ranges(const std::string& list) {
  constexpr int most = 65535;
  std::vector<int> numbers;
  for (const std::string& part : split(list, ',')) {
    const auto dash = part.find('-');
    const int first = std::atoi(part.c_str());
    const int last = dash == std::string::npos ? first : std::atoi(part.c_str() + dash + 1);
    for (int number = first; number <= std::min(last, most); ++number) numbers.push_back(number);
  }
  return numbers;
}

std::vector<std::string> expand_hostlist(const std::string& text) {
  std::vector<std::string> names;
  for (const std::string& part : split_outside_brackets(text)) {
    if (part.empty()) malformed(text);
    for (std::string& name : expand_name(part, text)) names.push_back(std::move(name));
  }
  return names;
}

}  // namespace capstan::launch
