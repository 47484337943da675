#include "worker.h"

#include <capstan/base/error.h>
#include <capstan/base/text.h>
#include <capstan/data_parts/subprocess.h>

#include <utility>

namespace tables {

using namespace capstan;

namespace {

constexpr const char* other_python = "set data.python to a Python 3 that has pyarrow";

std::string text_in(const Json& answer, const char* key) {
  const auto found = answer.find(key);
  return found == answer.end() || !found->is_string() ? std::string() : found->text();
}

std::string place_in(const Json& fault, const std::string& where) {
  auto place = text_in(fault, "file");
  if (place.empty()) place = where;
  const auto row = fault.find("row");
  if (row != fault.end() && row->is_number_integer()) place += cat(" row ", row->get<std::int64_t>());
  return place;
}

EndedProgram run(const Program& program, const std::string& where) {
  try {
    return run_program(program);
  } catch (const Error& error) {
    throw Error(cat("it is read by Python: ", error.diagnostics().front().what),
                cat("install python3 and pyarrow, or ", other_python), where);
  }
}

}  // namespace

Json ask_python(const Python& python, const char* script, const Json& request, const std::string& where) {
  const auto program = python_program(python.program);
  const auto ended =
      run({.arguments = {program, "-c", script}, .input = request.dump(), .patience = python.patience}, where);
  auto answer = try_parse_json(ended.output);
  if (ended.succeeded() && answer.is_object()) return answer;
  constexpr int is_said = 3;
  if (ended.status == is_said && answer.is_object())
    throw Error(text_in(answer, "what"), text_in(answer, "fix"), place_in(answer, where));
  throw Error(cat("it is read by Python, and ", program, " ", ended.text(), ended.last_words()),
              cat("try again, or ", other_python), where);
}

}  // namespace tables
