#include "squad.h"

#include "squad_source.h"

#include <capstan/base/text.h>

#include <filesystem>

namespace squad {

using namespace capstan;
using data::Split;

void SquadOptions::describe(config::OptionTable<SquadOptions>& t) {
  t.add("train", &SquadOptions::train).path().doc("questions to train on: a file in SQuAD v1.1's JSON format");
  t.add("eval", &SquadOptions::eval).path().doc("questions to evaluate on, in the same format");
  t.add("train_samples", &SquadOptions::train_samples)
      .min(1)
      .doc("train on the file's first questions only; not set: all of them");
  t.add("eval_samples", &SquadOptions::eval_samples)
      .min(1)
      .doc("evaluate on the file's first questions only; not set: all of them");
  t.add("max_length", &SquadOptions::max_length)
      .min(0)
      .doc("most tokens of a sample; longer ones lose the end of their context, never of the answer; 0: the model's");
  t.add("loss", &SquadOptions::loss)
      .choices({"answer", "sequence"})
      .doc("which tokens bear loss: answer and end token, or the whole sequence, prompt included");
}

struct SquadData::File {
  Split split = Split::train;
  std::string key;    // "data.train"
  std::string where;  // of that option
  std::string path;
  std::string samples_key;
  std::string samples_where;
  std::optional<std::int64_t> samples;
};

SquadData::File SquadData::file(Split split) const {
  const bool train = split == Split::train;
  const auto path = train ? &SquadOptions::train : &SquadOptions::eval;
  const auto samples = train ? &SquadOptions::train_samples : &SquadOptions::eval_samples;
  return {split,
          options_.name(path),
          options_.where(path),
          (*options_).*path,
          options_.name(samples),
          options_.where(samples),
          (*options_).*samples};
}

// The file of a split; none when the options name none, or when it added a fault.
std::optional<SquadFile> SquadData::read(const File& file, Diagnostics& diagnostics) const {
  if (file.path.empty()) {
    if (file.samples) {
      diagnostics.add(file.samples_where, file.samples_key + " is set, but " + file.key + " names no file",
                      "set " + file.key);
    }
    return {};
  }
  if (!std::filesystem::exists(file.path)) {
    diagnostics.add(file.where, file.key + ": there is no file " + file.path,
                    "tools/get-squad FOLDER downloads the official files");
    return {};
  }
  try {
    auto squad = read_squad(file.path, file.split);
    const auto held = static_cast<std::int64_t>(squad.questions.size());
    if (held == 0) {
      diagnostics.add(file.where, file.key + ": " + file.path + " holds no question", "name a file with questions");
      return {};
    }
    if (!file.samples || *file.samples <= held) return squad;
    diagnostics.add(file.samples_where,
                    cat(file.samples_key, " is ", thousands(*file.samples), ", ", file.path, " holds ", thousands(held),
                        " questions"),
                    cat("use ", held, " or less, or leave ", file.samples_key, " out for all of them"));
  } catch (const Error& error) {
    for (const auto& diagnostic : error.diagnostics()) diagnostics.add(diagnostic);
  }
  return {};
}

void SquadData::check(Diagnostics& diagnostics) const {
  const auto train = file(Split::train);
  const auto eval = file(Split::eval);
  read(train, diagnostics);
  read(eval, diagnostics);
  if (train.path.empty() && eval.path.empty()) {
    diagnostics.add(options_.section().origin.text(), "neither " + train.key + " nor " + eval.key + " names a file",
                    "set " + train.key + " to a file in SQuAD v1.1's format; tools/get-squad FOLDER downloads them");
  }
}

std::shared_ptr<data::DataSource> SquadData::open(const data::OpenRequest& request) const {
  const auto chosen = file(request.split);
  Diagnostics diagnostics;
  auto squad = read(chosen, diagnostics);
  diagnostics.throw_if_any();
  if (!squad) return nullptr;
  if (chosen.samples) squad->questions.resize(static_cast<std::size_t>(*chosen.samples));
  const auto loss = options_->loss == "sequence" ? Loss::sequence : Loss::answer;
  return std::make_shared<SquadSource>(std::move(*squad), request, loss);
}

}  // namespace squad
