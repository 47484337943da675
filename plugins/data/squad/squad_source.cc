#include "squad_source.h"

#include "metric.h"

#include <capstan/base/error.h>

#include <utility>

namespace squad {

using namespace capstan;

SquadSource::SquadSource(SquadFile file, data::OpenRequest request, Loss loss)
    : file_(std::move(file)), request_(std::move(request)), loss_(loss) {
  CAPSTAN_ASSERT(request_.tokenizer && request_.max_length > 0);
}

data::Sample SquadSource::get(std::int64_t index) const {
  CAPSTAN_ASSERT(index >= 0 && index < size());
  const auto& question = file_.questions[static_cast<std::size_t>(index)];
  return make_sample(question, file_.contexts[question.context], *request_.tokenizer, request_.max_length, loss_);
}

monitor::Values SquadSource::score(const data::Sample& sample, const std::string& text) const {
  return scores(text, sample.references);
}

}  // namespace squad
