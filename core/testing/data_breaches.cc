#include <capstan/data/source.h>
#include <capstan/testing.h>

#include <algorithm>
#include <cmath>
#include <vector>

#include "data/sample_form.h"
#include "testing/breaches.h"

namespace capstan::testing {
namespace {

constexpr std::int64_t most_samples = 200;  // the first ones and the last one are looked at

bool equal(const data::Sample& a, const data::Sample& b) {
  const auto same = [](const data::Sequence& x, const data::Sequence& y) {
    return x.tokens == y.tokens && x.is_target == y.is_target;
  };
  return a.tokens == b.tokens && a.is_target == b.is_target && a.prompt_length == b.prompt_length && a.id == b.id &&
         a.references == b.references && a.fields == b.fields &&
         std::equal(a.others.begin(), a.others.end(), b.others.begin(), b.others.end(), same);
}

void check_sample(const data::Sample& sample, const data::SplitRequest& request, const data::SampleForm& form,
                  const std::string& where, Breaches& breaches) {
  for (const auto& sequence : data::sequences_of(sample)) {
    const auto& tokens = sequence.tokens;
    breaches.unless(!tokens.empty(), where, " has no tokens");
    breaches.unless(std::cmp_less_equal(tokens.size(), request.max_length), where, " has ", tokens.size(),
                    " tokens, more than max_length ", request.max_length);
    breaches.unless(
        std::all_of(tokens.begin(), tokens.end(), [&](auto id) { return id >= 0 && id < request.vocab_size; }), where,
        " has a token that is not in the model's vocabulary");
  }
  breaches.unless(sample.prompt_length >= 0 && std::cmp_less_equal(sample.prompt_length, sample.tokens.size()), where,
                  " has a prompt of ", sample.prompt_length, " of its ", sample.tokens.size(), " tokens");
  try {
    data::check_form(sample, form);
  } catch (const Error& error) {
    breaches.unless(false, where, ": ", error.diagnostics().front().what);
  }
}

// What generation starts from.
void check_question(const data::DataSource& source, std::int64_t index, const data::Sample& sample,
                    const data::SplitRequest& request, const std::string& where, Breaches& breaches) {
  if (sample.prompt_length == 0) return;
  const auto question = source.question(index, request.max_length);
  breaches.unless(question.id == sample.id, where, ": question() has the id '", question.id, "', get() '", sample.id,
                  "'");
  breaches.unless(question.prompt_length > 0 && std::cmp_less_equal(question.prompt_length, question.tokens.size()),
                  where, ": question() has a prompt of ", question.prompt_length, " of its ", question.tokens.size(),
                  " tokens");
  for (const auto& reference : sample.references) {
    for (const auto& [name, score] : source.score(sample, reference)) {
      breaches.unless(std::isfinite(score) && score >= 0 && score <= 100, where, ": score '", name,
                      "' of an accepted answer is ", score, ", not between 0 and 100");
    }
  }
}

}  // namespace

std::string data_breaches(const data::DataSource& source, const data::SplitRequest& request,
                          const data::SampleForm& form) {
  Breaches breaches;
  breaches.result("the form", [&] { data::check_form(form); });
  const auto size = source.size();
  breaches.unless(size >= 0 && source.size() == size, "size() is ", size, ", then ", source.size());
  std::vector<std::int64_t> indices;
  for (std::int64_t i = 0; i < std::min(size, most_samples); ++i) indices.push_back(i);
  if (size > most_samples) indices.push_back(size - 1);
  std::vector<data::Sample> samples;
  for (const auto index : indices) {
    const auto where = cat("sample ", index);
    samples.push_back(breaches.result("get() of " + where, [&] { return source.get(index); }));
    check_sample(samples.back(), request, form, where, breaches);
    breaches.result("question() of " + where,
                    [&] { check_question(source, index, samples.back(), request, where, breaches); });
  }
  for (auto i = indices.size(); i-- > 0;) {  // in another order, as after a resume
    breaches.unless(equal(source.get(indices[i]), samples[i]), "sample ", indices[i],
                    " is another one the second time");
  }
  return breaches.text();
}

}  // namespace capstan::testing
