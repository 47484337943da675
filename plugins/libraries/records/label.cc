#include "label.h"

#include "line.h"

#include <capstan/base/text.h>

#include <string_view>

namespace jsonl {

bool read_label(const Rows& file, std::int64_t index, const Record& record) {
  const Line line(file, index, R"(with data.labels a line is {"prompt": …, "completion": …, "label": true or false})");
  if (std::string_view(record.form) != "prompt and completion") line.fail(capstan::cat("the line has ", record.form));
  if (!line.has("label")) line.fail("'label' is missing: is the completion wanted?");
  const auto& label = line.json().at("label");
  if (label.is_boolean()) return label.get<bool>();
  const auto text = label.dump();
  if (text != "0" && text != "1") line.fail(capstan::cat("'label' is ", text));
  return text == "1";
}

std::string prompt_of(const Record& record) {
  std::string prompt;
  for (const auto& piece : record.pieces) {
    if (!piece.is_answer) prompt += piece.text;
  }
  return prompt;
}

}  // namespace jsonl
