#include "teacher.h"

#include "line.h"

#include <capstan/base/error.h>
#include <capstan/base/json.h>
#include <capstan/base/text.h>

#include <algorithm>
#include <cmath>

#include "tokens/teacher_fields.h"

namespace jsonl {

using namespace capstan;

namespace {

constexpr const char* ids_key = "teacher_words";
constexpr const char* logs_key = "teacher_log_probabilities";
constexpr const char* teacher_fix =
    "give the line a list for each token that bears loss, with data.teacher_words ids and as many log-probabilities";

const Json& list_of(const Line& line, const char* key) {
  if (!line.has(key)) line.fail(cat("'", key, "' is missing"), teacher_fix);
  const auto& list = line.json().at(key);
  if (!list.is_array())
    line.fail(cat("'", key, "' is of type ", list.type_name(), ", not a list of lists"), teacher_fix);
  return list;
}

// What a list's numbers are to be.
struct WantedNumbers {
  std::int64_t count;
  const char* kind;
  bool (*is_valid)(const Json& value);
};

template <class Number>
std::vector<Number> teacher_numbers(const Line& line, const Json& list, const std::string& name,
                                    const WantedNumbers& wanted) {
  if (!list.is_array() || static_cast<std::int64_t>(list.size()) != wanted.count)
    line.fail(cat("'", name, "' is no list of ", wanted.count, " numbers"), teacher_fix);
  std::vector<Number> numbers;
  for (const auto& number : list) {
    if (!wanted.is_valid(number))
      line.fail(cat("'", name, "' has ", number.dump(), ", which is no ", wanted.kind), teacher_fix);
    numbers.push_back(number.get<Number>());
  }
  return numbers;
}

void check_row(const Line& line, const TeacherRow& row, std::size_t index) {
  auto sorted = row.words;
  std::sort(sorted.begin(), sorted.end());
  const auto twice = std::adjacent_find(sorted.begin(), sorted.end());
  if (twice != sorted.end())
    line.fail(cat("'", ids_key, "[", index, "]' has the word ", *twice, " twice"), teacher_fix);
  double sum = 0;
  for (const auto value : row.log_probabilities) {
    if (value > rounding) {
      line.fail(
          cat("'", logs_key, "[", index, "]' has ", value, ", and the logarithm of a probability is not above 0"),
          "write natural logarithms of probabilities: a negative log-likelihood is one with its sign turned round");
    }
    sum += std::exp(static_cast<double>(value));
  }
  if (sum <= 1 + rounding) return;
  line.fail(cat("'", logs_key, "[", index, "]' are of probabilities whose sum is ", sum),
            "write natural logarithms of probabilities among all words, at the objective's temperature");
}

}  // namespace

std::vector<TeacherRow> read_teacher(const Rows& file, std::int64_t index, std::int64_t words) {
  const Line line(file, index, teacher_fix);
  const auto &ids = list_of(line, ids_key), &logs = list_of(line, logs_key);
  if (ids.size() != logs.size())
    line.fail(cat("'", ids_key, "' has ", ids.size(), " lists, and '", logs_key, "' ", logs.size()), teacher_fix);
  const WantedNumbers wanted_ids{
      words, "id", [](const Json& value) { return value.is_number_integer() && value.get<std::int64_t>() >= 0; }};
  const WantedNumbers wanted_logs{
      words, "finite number", [](const Json& value) { return value.is_number() && std::isfinite(value.get<float>()); }};
  std::vector<TeacherRow> rows;
  for (std::size_t i = 0; i < ids.size(); ++i) {
    rows.push_back({teacher_numbers<std::int64_t>(line, ids[i], cat(ids_key, "[", i, "]"), wanted_ids),
                    teacher_numbers<float>(line, logs[i], cat(logs_key, "[", i, "]"), wanted_logs)});
    check_row(line, rows.back(), i);
  }
  return rows;
}

std::vector<data::FieldSpec> teacher_fields(std::int64_t words) {
  using Field = data::FieldSpec;
  std::vector<Field> fields;
  for (std::int64_t n = 1; n <= words; ++n) {
    fields.push_back({tokens::teacher_word(n), Field::Type::int64, Field::Per::token});
    fields.push_back({tokens::teacher_log_probability(n), Field::Type::float32, Field::Per::token});
  }
  return fields;
}

std::vector<data::FieldValues> teacher_values(const std::vector<TeacherRow>& rows, const data::Sample& sample,
                                              std::int64_t words, std::int64_t vocab_size, const std::string& where) {
  const auto size = sample.tokens.size(), count = static_cast<std::size_t>(words);
  std::vector<std::vector<std::int64_t>> ids(count, std::vector<std::int64_t>(size));
  std::vector<std::vector<float>> logs(count, std::vector<float>(size));
  std::size_t next = 0;
  for (std::size_t t = 1; t < size; ++t) {
    if (!sample.is_target[t] || next++ >= rows.size()) continue;
    const auto& row = rows[next - 1];
    for (std::size_t n = 0; n < count; ++n) {
      if (row.words[n] >= vocab_size) {
        throw Error(
            cat("'", ids_key, "[", next - 1, "]' has ", row.words[n], ", and the model has ", vocab_size, " words"),
            "take a teacher with the same tokenizer", where);
      }
      ids[n][t] = row.words[n];
      logs[n][t] = row.log_probabilities[n];
    }
  }
  if (next != rows.size()) {
    throw Error(cat("'", ids_key, "' has ", rows.size(), " lists, and ", next, " tokens of the line bear loss"),
                "compute the teacher's words with the same tokenizer, template and data.loss", where);
  }
  std::vector<data::FieldValues> values;
  for (std::size_t n = 0; n < count; ++n) {
    values.emplace_back(std::move(ids[n]));
    values.emplace_back(std::move(logs[n]));
  }
  return values;
}

}  // namespace jsonl
