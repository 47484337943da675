#include "squad.h"

#include "metric.h"
#include "prompt.h"
#include "squad_keys.h"

#include <capstan/base/counted.h>
#include <capstan/base/log.h>
#include <capstan/base/paths.h>
#include <capstan/base/printable.h>
#include <capstan/base/text.h>
#include <capstan/data_parts/derived_options.h>

#include <algorithm>
#include <filesystem>

#include "records/mapped_lines.h"
#include "tables/decoded_rows.h"
#include "tokens/lengths.h"

namespace squad {

using namespace capstan;
using data::Split;

namespace {

data::FileKind squad_json() {
  return {"questions", "a file in SQuAD's format; tools/get-squad FOLDER downloads them",
          "tools/get-squad FOLDER downloads the official files, tools/make-quickstart-data makes the quickstart's"};
}

// A question that fits no sample would end a run at the step that meets it: all are looked at before the first one.
void refuse_too_long(const SquadFile& squad, const data::SplitRequest& request) {
  const auto& tokenizer = *request.tokenizer;
  const Question* first = nullptr;
  std::int64_t longest = 0;
  std::int64_t count = 0;
  for (const auto& question : squad.questions) {
    // Few texts have more tokens than bytes; make_sample judges these.
    const auto answer = question.answers.empty() ? 0 : question.answers.front().size() + 1;
    const auto bytes = prompt_text(question.text, "").size() + answer + tokenizer.prefix_ids().size() + 1;
    if (static_cast<std::int64_t>(bytes) <= request.max_length) continue;
    const auto needs = least_tokens(question, tokenizer);
    if (needs <= request.max_length) continue;
    if (count++ == 0) first = &question;
    longest = std::max(longest, needs);
  }
  if (count == 0) return;
  const auto others = count == 1 ? "" : cat(" (and ", count - 1, " more; the longest needs ", longest, ")");
  throw Error(cat("question '", first->id, "' needs ", least_tokens(*first, tokenizer),
                  " tokens without any context, max_length is ", request.max_length, others),
              cat("raise max_length to ", longest, " or more, or take ", count == 1 ? "the question" : "them", " out"),
              squad.path);
}

// A score could not tell such an answer from none.
void refuse_no_answer(const SquadFile& squad, const std::string& no_answer) {
  const auto none = normalized_words(no_answer);
  for (const auto& question : squad.questions) {
    for (const auto& answer : question.answers) {
      if (!question.is_answered || normalized_words(answer) != none) continue;
      throw Error(cat("question '", question.id, "' has the answer '", printable(answer),
                      "', which stands for no answer (data.no_answer)"),
                  "set data.no_answer to a text that no question has as its answer", squad.path);
    }
  }
}

// What a person should know of a file that is used all the same.
void tell(const SquadFile& squad, bool skips) {
  constexpr std::size_t most = 10;
  if (skips && squad.unanswerable > 0) {
    const auto all = squad.unanswerable + static_cast<std::int64_t>(squad.questions.size());
    log::warning(cat(squad.path, ": ", thousands(squad.unanswerable), " of ", counted(all, "question"),
                     " have no answer and are left out (data.unanswerable)"));
  }
  if (squad.unknown_keys.empty()) return;
  std::vector<std::string> named;
  for (const auto& key : squad.unknown_keys) {
    if (named.size() < most) named.push_back(printable(key));
  }
  const auto more = squad.unknown_keys.size() - named.size();
  log::warning(cat(squad.path, ": Capstan does not know these keys and leaves them out: ", join(named),
                   more > 0 ? cat(" and ", more, " more") : ""));
}

// All that the samples are made of.
std::string texts_of(const SquadFile& squad) {
  std::string texts;
  for (const auto& context : squad.contexts) texts += context + "\n";
  for (const auto& question : squad.questions) {
    texts += cat(question.context, " ", question.text, "\n");
    if (!question.answers.empty()) texts += question.answers.front() + "\n";
  }
  return texts;
}

/// The questions of a file. Holds their text; get() tokenises, and may be called from several threads.
class SquadSource final : public data::DataSource {
 public:
  /// `no_answer`: what stands for no answer, where questions that have none are learned.
  SquadSource(SquadFile file, data::SplitRequest request, Loss loss, std::optional<std::string> no_answer)
      : file_(std::move(file)), request_(std::move(request)), loss_(loss), no_answer_(std::move(no_answer)) {
    CAPSTAN_ASSERT(request_.tokenizer && request_.max_length > 0);
  }
  std::int64_t size() const override { return static_cast<std::int64_t>(file_.questions.size()); }
  data::Sample get(std::int64_t index) const override {
    return made(index, [&](const Question& question, const std::string& context) {
      return make_sample(question, context, *request_.tokenizer, request_.max_length, loss_);
    });
  }
  data::Sample question(std::int64_t index, std::int64_t most) const override {
    return made(index, [&](const Question& question, const std::string& context) {
      return make_prompt(question, context, *request_.tokenizer, std::min(most, request_.max_length));
    });
  }
  /// The official exact_match and f1.
  monitor::Values score(const data::Sample& sample, const std::string& text) const override {
    return scores(text, sample.references, no_answer_);
  }
  /// The first line is the answer.
  std::size_t answer_end(std::string_view text) const override { return text.find('\n'); }
  std::string content() const override { return file_.content; }

 private:
  // Makes a sample; what is wrong with it names the file.
  template <class Make>
  data::Sample made(std::int64_t index, const Make& make) const {
    CAPSTAN_ASSERT(index >= 0 && index < size());
    const auto& question = file_.questions[static_cast<std::size_t>(index)];
    try {
      return make(question, file_.contexts[question.context]);
    } catch (const Error& error) {
      if (!error.context().empty()) throw;  // another plugin's: a tokenizer's
      const auto& first = error.diagnostics().front();
      throw Error(first.what, first.fix, file_.path);
    }
  }
  SquadFile file_;
  data::SplitRequest request_;
  Loss loss_;
  std::optional<std::string> no_answer_;
};

}  // namespace

void SquadOptions::describe(config::OptionTable<SquadOptions>& t) {
  data::describe_split_files(
      t,
      "questions to train on: a file in SQuAD's JSON format, version 1.1 or 2.0, or a table with its rows (JSON "
      "lines, Parquet, Arrow, a folder of them)",
      "questions to evaluate on, in the same format", squad_json());
  config::OptionTable<tables::TableOptions> of_dataset(t);
  TableOptions::describe(of_dataset);
  data::describe_derived(t, &SquadOptions::python, &SquadOptions::derived);
  t.add("max_length", &SquadOptions::max_length)
      .min(0)
      .doc(
          "most tokens of a sample; longer ones lose the end of their context, never of the answer; 0: the model's; "
          "\"auto\": as many as the longest one has");
  t.add("loss", &SquadOptions::loss)
      .choices({"answer", "sequence"})
      .doc("which tokens bear loss: answer and end token, or the whole sequence, prompt included");
  t.add("answers", &SquadOptions::answers)
      .choices({"in_context", "any"})
      .doc(
          "in_context: the answer that is trained on, and one of those that are accepted, must stand in its context, "
          "as SQuAD's do; any: answers are free");
  t.add("unanswerable", &SquadOptions::unanswerable)
      .choices({"refuse", "skip", "learn"})
      .doc(
          "questions without an answer, as SQuAD v2.0 has them. refuse: a file that has some is refused; skip: they "
          "are "
          "left out; learn: no_answer is their answer, and scores follow version 2.0's rule");
  t.add("no_answer", &SquadOptions::no_answer)
      .doc(
          "with unanswerable = \"learn\" the text by which the model says that a question has no answer; not set: "
          "\"unanswerable\"");
}

std::vector<config::FileKeys> SquadOptions::file_keys() { return {squad_keys(), row_keys()}; }

// A file in SQuAD's format, or a table; without a path after a fault was added.
SquadFile SquadData::read_file(const data::SplitFile& file, Split split, Diagnostics& diagnostics) const {
  const std::filesystem::path path = file.path;
  const bool is_one = !splits_.is_of_dataset(file) && is_file(path);
  if (is_one && path.extension() == ".jsonl") return read_squad_rows(jsonl::MappedLines(file.path), split, reading());
  if (is_one && path.extension() != ".parquet" && path.extension() != ".arrow")
    return read_squad(file.path, split, reading());
  const auto tables = splits_.tables_of(
      file, {.name = {}, .files = {}, .leave_out = {}, .folder = options_->derived, .python = {options_->python}},
      diagnostics);
  if (tables.files.empty()) return {};
  return read_squad_rows(tables::DecodedRows(tables), split, reading());
}

// The questions of a file that are used; none when the options name no file, or when it added a fault.
std::optional<SquadFile> SquadData::read(const data::SplitFile& file, Split split, Diagnostics& diagnostics) const {
  if (!splits_.is_of_dataset(file) && !file.is_there(squad_json(), diagnostics)) return {};
  try {
    auto squad = read_file(file, split, diagnostics);
    if (squad.path.empty()) return {};
    if (reading().unanswerable == Unanswerable::learn) refuse_no_answer(squad, no_answer());
    const auto held = static_cast<std::int64_t>(squad.questions.size());
    if (!file.is_enough(held, squad_json(), diagnostics)) return {};
    squad.questions.resize(static_cast<std::size_t>(file.samples.value_or(held)));
    return squad;
  } catch (const Error& error) {
    for (const auto& diagnostic : error.diagnostics()) diagnostics.add(diagnostic);
    return {};
  }
}

Reading SquadData::reading() const {
  const bool learns = options_->unanswerable == "learn";
  const auto other = options_->unanswerable == "skip" ? Unanswerable::skip : Unanswerable::refuse;
  return {options_->answers == "in_context", learns ? Unanswerable::learn : other, no_answer()};
}

void SquadData::check_no_answer(Diagnostics& diagnostics) const {
  if (!options_->no_answer) return;
  const auto where = options_.where(&SquadOptions::no_answer);
  if (options_->unanswerable != "learn") {
    diagnostics.add(where, "data.no_answer has no effect: data.unanswerable is not \"learn\"",
                    "remove it, or set data.unanswerable = \"learn\"");
  }
  if (trim(*options_->no_answer).empty() || predicted_answer(*options_->no_answer) != *options_->no_answer) {
    diagnostics.add(where, "data.no_answer is not a line of text, as answers are", "write a word or a few");
  }
}

void SquadData::check(Diagnostics& diagnostics) const {
  check_no_answer(diagnostics);
  auto files = data::all_files(options_, diagnostics);
  splits_.place(files, diagnostics);
  for (std::size_t i = 0; i < files.size(); ++i) {
    const auto squad = read(files[i], i == 0 ? Split::train : Split::eval, diagnostics);
    if (squad) tell(*squad, options_->unanswerable == "skip");
  }
  data::require_file(files[0], files[1], options_.section().origin.text(), squad_json(), diagnostics);
}

std::shared_ptr<data::DataSource> SquadData::source_of(SquadFile file, const data::SplitRequest& request) const {
  const auto loss = options_->loss == "sequence" ? Loss::sequence : Loss::answer;
  const bool learns = options_->unanswerable == "learn";
  return std::make_shared<SquadSource>(std::move(file), request, loss,
                                       learns ? std::optional(no_answer()) : std::nullopt);
}

tokens::Lengths SquadData::lengths(const data::SplitRequest& request) const {
  constexpr std::int64_t longer_than_any = std::int64_t{1} << 30;
  Diagnostics diagnostics;
  auto file = read(splits_.placed(data::requested_file(options_, request), request), request.split, diagnostics);
  diagnostics.throw_if_any();
  if (!file) return {};
  const auto texts = texts_of(*file), name = file->path;
  auto whole = request;
  whole.max_length = longer_than_any;
  const auto source = source_of(std::move(*file), whole);
  return tokens::lengths_of(*source, *request.tokenizer,
                            {name, "questions", texts.size(), [&] { return std::string(texts); }, options_->derived,
                             "set data.derived to another folder"});
}

std::shared_ptr<data::DataSource> SquadData::open(const data::SplitRequest& request) const {
  Diagnostics diagnostics;
  auto squad = read(splits_.placed(data::requested_file(options_, request), request), request.split, diagnostics);
  diagnostics.throw_if_any();
  if (!squad) return nullptr;
  refuse_too_long(*squad, request);
  const auto path = squad->path;
  auto source = source_of(std::move(*squad), request);
  const auto where = [&](std::int64_t index) { return cat(path, ": question ", index); };
  const auto wants_end = [](std::int64_t, const data::Sample& sample) {
    return std::find(sample.is_target.begin(), sample.is_target.end(), true) != sample.is_target.end();
  };
  end_warnings_.warn(*source, {*request.tokenizer, where, wants_end});
  return source;
}

}  // namespace squad

CAPSTAN_DATA("squad", "1.0", "questions about a text, in SQuAD's JSON format", squad::SquadData, squad::SquadOptions)
