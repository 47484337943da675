#include "squad_source.h"

#include "metric.h"

#include <capstan/base/error.h>

#include <algorithm>
#include <utility>

namespace squad {

using namespace capstan;

SquadSource::SquadSource(SquadFile file, data::OpenRequest request, Loss loss)
    : file_(std::move(file)), request_(std::move(request)), loss_(loss) {
  CAPSTAN_ASSERT(request_.tokenizer && request_.max_length > 0);
}

// Makes a sample; what is wrong with it names the file.
template <class Make>
data::Sample SquadSource::made(const Make& make) const {
  try {
    return make();
  } catch (const Error& error) {
    if (!error.context().empty()) throw;  // another plugin's: a tokenizer's
    const auto& first = error.diagnostics().front();
    throw Error(first.what, first.fix, file_.path);
  }
}

data::Sample SquadSource::get(std::int64_t index) const {
  CAPSTAN_ASSERT(index >= 0 && index < size());
  const auto& question = file_.questions[static_cast<std::size_t>(index)];
  return made([&] {
    return make_sample(question, file_.contexts[question.context], *request_.tokenizer, request_.max_length, loss_);
  });
}

data::Sample SquadSource::question(std::int64_t index, std::int64_t most) const {
  CAPSTAN_ASSERT(index >= 0 && index < size());
  const auto& question = file_.questions[static_cast<std::size_t>(index)];
  return made([&] {
    return make_prompt(question, file_.contexts[question.context], *request_.tokenizer,
                       std::min(most, request_.max_length));
  });
}

monitor::Values SquadSource::score(const data::Sample& sample, const std::string& text) const {
  return scores(text, sample.references);
}

}  // namespace squad
