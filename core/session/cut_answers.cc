#include "session/cut_answers.h"

#include <capstan/base/counted.h>
#include <capstan/base/text.h>
#include "plugin/guard.h"

#include <algorithm>

#include "setup/collect.h"

namespace capstan::session {
namespace {

constexpr std::int64_t most_looked_at = 500;
constexpr std::int64_t uncut = std::int64_t{1} << 30;  ///< longer than any sample

bool holds_answer(const data::Sample& sample, const tokenizer::Tokenizer& tokenizer) {
  const auto prompt = tokenizer.decode({sample.tokens.begin(), sample.tokens.begin() + sample.prompt_length});
  return std::any_of(sample.references.begin(), sample.references.end(),
                     [&](const std::string& answer) { return prompt.find(answer) != std::string::npos; });
}

// A fault that names no place of its own is in what [data] names.
data::Sample sample_of(const job::Job& job, data::Split split, const data::DataSource& source, std::int64_t index) {
  const auto& data = *job.plugins.data;
  Diagnostics faults;
  data::Sample sample;
  setup::collect(
      faults,
      [&] {
        const auto* of = split == data::Split::train ? " of the training data" : " of the evaluation data";
        plugin::guard(data.name, cat("get of sample ", index, of), [&] { sample = source.get(index); });
      },
      data.where);
  faults.throw_if_any();
  return sample;
}

}  // namespace

std::string cut_answers_text(const job::Job& job, data::Split split) {
  const auto source = split == data::Split::train ? job.samples.train : job.samples.eval;
  if (!source || !job.plugins.data || !job.plugins.data->object->uses_tokenizer()) return {};
  const auto& data = *job.plugins.data;
  const auto& tokenizer = job.samples.tokenizer.object;
  std::int64_t cut = 0;
  const auto looked_at = std::min(most_looked_at, plugin::guard(data.name, "size", [&] { return source->size(); }));
  const auto whole = plugin::guard(data.name, "open", [&] {
    return data.object->open(job.samples.request(split, uncut, job.plugins.model_facts.vocab_size));
  });
  for (std::int64_t i = 0; i < looked_at; ++i) {
    const auto sample = sample_of(job, split, *source, i);
    const bool full = static_cast<std::int64_t>(sample.tokens.size()) + 4 >= job.samples.length;  // else nothing is cut
    if (!full || holds_answer(sample, *tokenizer)) continue;
    const auto uncut_sample = sample_of(job, split, *whole, i);
    if (uncut_sample.id != sample.id) return {};  // what is too long is left out, and nothing is cut
    if (holds_answer(uncut_sample, *tokenizer)) ++cut;
  }
  if (cut == 0) return {};
  const auto noun = split == data::Split::train ? "training sample" : "evaluation sample";
  return cat("answers that are cut off: ", cut, " of the first ", counted(looked_at, noun),
             plural(cut, " loses its answer", " lose their answer"), " from the prompt, since the text is longer than ",
             job.samples.length,
             " tokens of this tokenizer; raise data.max_length, or take a tokenizer that needs fewer tokens\n");
}

}  // namespace capstan::session
