#include "numbers.h"

#include "line.h"
#include "teacher.h"

#include <capstan/base/json.h>
#include <capstan/base/text.h>

#include <cmath>

namespace jsonl {
namespace {

using capstan::cat;

constexpr const char* fix = "give the line the numbers that data.numbers names, or take the name out";

std::vector<float> numbers_of(const Line& line, const std::string& key, std::int64_t sequences) {
  if (!line.has(key.c_str())) line.fail(cat("'", key, "' is missing"), fix);
  const auto& value = line.json().at(key);
  const auto list = value.is_number() ? capstan::Json::array({value}) : value;
  const bool is_logarithm = key.find("log_prob") != key.npos || key.find("logp") != key.npos;
  std::vector<float> numbers;
  for (const auto& number : list.is_array() ? list : capstan::Json::array()) {
    if (!number.is_number() || !std::isfinite(number.get<float>()))
      line.fail(cat("'", key, "' has ", number.dump(), ", which is no finite number"), fix);
    numbers.push_back(number.get<float>());
    if (is_logarithm && numbers.back() > rounding) {
      line.fail(cat("'", key, "' has ", number.dump(), ", and the logarithm of a probability is not above 0"),
                "write log-probabilities: a negative log-likelihood is one with its sign turned round");
    }
  }
  if (static_cast<std::int64_t>(numbers.size()) != sequences)
    line.fail(cat("'", key, "' has ", numbers.size(), " numbers, and the line ", sequences, " sequences"), fix);
  return numbers;
}

}  // namespace

std::vector<capstan::data::FieldValues> read_numbers(const Rows& file, std::int64_t index,
                                                     const std::vector<std::string>& keys, std::int64_t sequences) {
  std::vector<capstan::data::FieldValues> all;
  if (keys.empty()) return all;
  const Line line(file, index, fix);
  for (const auto& key : keys) all.emplace_back(numbers_of(line, key, sequences));
  return all;
}

}  // namespace jsonl
