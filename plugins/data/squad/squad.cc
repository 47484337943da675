#include "squad.h"

#include "squad_source.h"

namespace squad {

using namespace capstan;
using data::Split;

namespace {

data::FileKind squad_json() {
  return {"questions", "a file in SQuAD v1.1's format; tools/get-squad FOLDER downloads them",
          "tools/get-squad FOLDER downloads the official files"};
}

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
}

// The questions of a split that are used; none when the options name no file, or when it added a fault.
std::optional<SquadFile> SquadData::read(Split split, Diagnostics& diagnostics) const {
  const auto file = data::split_file(options_, split);
  if (!file.is_there(squad_json(), diagnostics)) return {};
  try {
    auto squad = read_squad(file.path, split);
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
  read(Split::train, diagnostics);
  read(Split::eval, diagnostics);
  data::require_file(data::split_file(options_, Split::train), data::split_file(options_, Split::eval),
                     options_.section().origin.text(), squad_json(), diagnostics);
}

std::shared_ptr<data::DataSource> SquadData::open(const data::OpenRequest& request) const {
  Diagnostics diagnostics;
  auto squad = read(request.split, diagnostics);
  diagnostics.throw_if_any();
  if (!squad) return nullptr;
  const auto loss = options_->loss == "sequence" ? Loss::sequence : Loss::answer;
  return std::make_shared<SquadSource>(std::move(*squad), request, loss);
}

}  // namespace squad
