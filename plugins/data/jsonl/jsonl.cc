#include "jsonl.h"

#include "jsonl_source.h"

#include <capstan/base/text.h>

namespace jsonl {

using namespace capstan;

namespace {

data::FileKind json_lines() { return {"lines", "a file of JSON lines", "name a file of JSON lines"}; }

}  // namespace

void JsonlOptions::describe(config::OptionTable<JsonlOptions>& t) {
  data::describe_split_files(
      t,
      R"(file to train on, a JSON object a line: {"prompt", "completion"}, {"messages": [{"role", "content"}]} or )"
      R"({"text"}; "id" may stand beside them)",
      "file to evaluate on, in the same format", json_lines());
  t.add("max_length", &JsonlOptions::max_length).min(0).doc("most tokens of a sample; 0: the model's");
  t.add("too_long", &JsonlOptions::too_long)
      .choices({"error", "cut"})
      .doc(
          "a line of more tokens than max_length. error: the run ends and names it; cut: a text loses its end, a "
          "prompt "
          "or a conversation its beginning, never the last answer");
  t.add("loss", &JsonlOptions::loss)
      .choices({"answer", "sequence"})
      .doc(
          "which tokens bear loss: completions and the assistant's turns with what ends them, or everything. Of a text "
          "it is always everything");
  t.add("turn", &JsonlOptions::turn)
      .doc(R"(how a message is written, with {role} and {content}, such as )"
           R"("<|start_header_id|>{role}<|end_header_id|>\n\n{content}<|eot_id|>"; what stands before the assistant's )"
           R"({content} is what answers are generated from)");
  t.add("system_turn", &JsonlOptions::system_turn).doc("how the system's messages are written instead");
  t.add("user_turn", &JsonlOptions::user_turn).doc("how the user's messages are written instead");
  t.add("assistant_turn", &JsonlOptions::assistant_turn).doc("how the assistant's messages are written instead");
}

Turns JsonlData::turns(Diagnostics& diagnostics) const {
  const auto judge = [&](const std::string& text, const auto& member) {
    if (text.find("{content}") != std::string::npos) return;
    diagnostics.add(options_.where(member),
                    cat(options_.name(member), " is \"", text, "\", which has no place for a message's text"),
                    "write {content} where it stands");
  };
  if (!options_->turn.empty()) judge(options_->turn, &JsonlOptions::turn);
  for (const auto member : {&JsonlOptions::system_turn, &JsonlOptions::user_turn, &JsonlOptions::assistant_turn}) {
    if ((*options_).*member) judge(*((*options_).*member), member);
  }
  return {options_->turn, options_->system_turn, options_->user_turn, options_->assistant_turn};
}

// The file of a split; null when the options name none, or when it added a fault.
std::shared_ptr<const LineFile> JsonlData::read(const data::SplitFile& split, Diagnostics& diagnostics) const {
  if (!split.is_there(json_lines(), diagnostics)) return nullptr;
  auto file = std::make_shared<const LineFile>(split.path);
  return split.is_enough(file->size(), json_lines(), diagnostics) ? file : nullptr;
}

// Every line is read, so that a broken one shows before anything is expensive; the first few that are wrong are named.
void JsonlData::check_lines(const LineFile& file, const Turns& turns, Diagnostics& diagnostics) const {
  constexpr int most = 10;
  int faults = 0;
  for (std::int64_t i = 0; i < file.size() && faults < most; ++i) {
    try {
      read_record(file, i, turns);
    } catch (const Error& error) {
      ++faults;
      for (const auto& diagnostic : error.diagnostics()) diagnostics.add(diagnostic);
    }
  }
}

void JsonlData::check(Diagnostics& diagnostics) const {
  const auto before = diagnostics.size();
  const auto written = turns(diagnostics);
  const bool usable = diagnostics.size() == before;
  const auto train = data::split_file(options_, data::Split::train);
  const auto eval = data::split_file(options_, data::Split::eval);
  for (const auto* one : {&train, &eval}) {
    const auto file = read(*one, diagnostics);
    if (file && usable) check_lines(*file, written, diagnostics);
  }
  data::require_file(train, eval, options_.section().origin.text(), json_lines(), diagnostics);
}

std::shared_ptr<data::DataSource> JsonlData::open(const data::OpenRequest& request) const {
  const auto chosen = data::split_file(options_, request.split);
  Diagnostics diagnostics;
  const auto written = turns(diagnostics);
  const auto file = read(chosen, diagnostics);
  diagnostics.throw_if_any();
  if (!file) return nullptr;
  return std::make_shared<JsonlSource>(file, chosen.samples.value_or(file->size()), written, request,
                                       SampleOptions{options_->loss == "sequence", options_->too_long == "cut"});
}

}  // namespace jsonl
