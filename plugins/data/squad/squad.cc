#include "squad.h"

#include "metric.h"
#include "prompt.h"

#include <capstan/base/text.h>

#include <algorithm>

namespace squad {

using namespace capstan;
using data::Split;

namespace {

data::FileKind squad_json() {
  return {"questions", "a file in SQuAD v1.1's format; tools/get-squad FOLDER downloads them",
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

/// The questions of a file. Holds their text; get() tokenises.
class SquadSource final : public data::DataSource {
 public:
  SquadSource(SquadFile file, data::SplitRequest request, Loss loss)
      : file_(std::move(file)), request_(std::move(request)), loss_(loss) {
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
  /// The official exact_match and f1; none for a question without answers.
  monitor::Values score(const data::Sample& sample, const std::string& text) const override {
    return scores(text, sample.references);
  }
  /// The first line is the answer.
  std::size_t answer_end(std::string_view text) const override { return text.find('\n'); }

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
};

}  // namespace

void SquadOptions::describe(config::OptionTable<SquadOptions>& t) {
  data::describe_split_files(t, "questions to train on: a file in SQuAD v1.1's JSON format",
                             "questions to evaluate on, in the same format", squad_json());
  t.add("max_length", &SquadOptions::max_length)
      .min(0)
      .doc("most tokens of a sample; longer ones lose the end of their context, never of the answer; 0: the model's");
  t.add("loss", &SquadOptions::loss)
      .choices({"answer", "sequence"})
      .doc("which tokens bear loss: answer and end token, or the whole sequence, prompt included");
  t.add("answers", &SquadOptions::answers)
      .choices({"in_context", "any"})
      .doc(
          "in_context: the answer that is trained on, and one of those that are accepted, must stand in its context, "
          "as SQuAD's do; any: answers are free");
}

// The questions of a file that are used; none when the options name no file, or when it added a fault.
std::optional<SquadFile> SquadData::read(const data::SplitFile& file, Split split, Diagnostics& diagnostics) const {
  if (!file.is_there(squad_json(), diagnostics)) return {};
  try {
    auto squad = read_squad(file.path, split, options_->answers == "in_context");
    const auto held = static_cast<std::int64_t>(squad.questions.size());
    if (!file.is_enough(held, squad_json(), diagnostics)) return {};
    squad.questions.resize(static_cast<std::size_t>(file.samples.value_or(held)));
    return squad;
  } catch (const Error& error) {
    for (const auto& diagnostic : error.diagnostics()) diagnostics.add(diagnostic);
    return {};
  }
}

void SquadData::check(Diagnostics& diagnostics) const {
  const auto files = data::all_files(options_, diagnostics);
  for (std::size_t i = 0; i < files.size(); ++i) read(files[i], i == 0 ? Split::train : Split::eval, diagnostics);
  data::require_file(files[0], files[1], options_.section().origin.text(), squad_json(), diagnostics);
}

std::shared_ptr<data::DataSource> SquadData::open(const data::SplitRequest& request) const {
  Diagnostics diagnostics;
  auto squad = read(data::requested_file(options_, request), request.split, diagnostics);
  diagnostics.throw_if_any();
  if (!squad) return nullptr;
  refuse_too_long(*squad, request);
  const auto loss = options_->loss == "sequence" ? Loss::sequence : Loss::answer;
  return std::make_shared<SquadSource>(std::move(*squad), request, loss);
}

}  // namespace squad

CAPSTAN_DATA("squad", "1.0", "questions about a text, in SQuAD v1.1's JSON format", squad::SquadData,
             squad::SquadOptions)
