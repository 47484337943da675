#include "prompt.h"

#include <capstan/base/error.h>
#include <capstan/base/text.h>

#include <algorithm>
#include <optional>
#include <string_view>

namespace squad {
namespace {

using capstan::cat;
using capstan::Error;
using capstan::data::Sample;
using capstan::tokenizer::Tokenizer;
using Ids = std::vector<std::int64_t>;

// Where a UTF-8 text may be cut: before each character and at its end.
std::vector<std::size_t> cuts(std::string_view text) {
  std::vector<std::size_t> out;
  for (std::size_t i = 0; i < text.size(); ++i) {
    if ((static_cast<unsigned char>(text[i]) & 0xC0U) != 0x80U) out.push_back(i);
  }
  out.push_back(text.size());
  return out;
}

// Ids of a text that begins a sequence.
Ids first_ids(const Tokenizer& tokenizer, const std::string& text) {
  auto ids = tokenizer.prefix_ids();
  const auto more = tokenizer.encode(text);
  ids.insert(ids.end(), more.begin(), more.end());
  return ids;
}

// The parts of one question; only the context's length may change.
class Joined {
 public:
  Joined(const Question& question, const std::string& context, const Tokenizer& tokenizer)
      : question_(question), context_(context), tokenizer_(tokenizer) {
    if (!question.answers.empty()) answer_ = " " + question.answers.front();
  }

  bool has_end() const { return !answer_.empty() && tokenizer_.end_id() >= 0; }
  std::string prompt(std::size_t context_bytes) const {
    return prompt_text(question_.text, context_.substr(0, context_bytes));
  }
  // Ids of all of it, the end token included.
  Ids ids(std::size_t context_bytes) const {
    auto out = first_ids(tokenizer_, prompt(context_bytes) + answer_);
    if (has_end()) out.push_back(tokenizer_.end_id());
    return out;
  }

 private:
  const Question& question_;
  const std::string& context_;
  const Tokenizer& tokenizer_;
  std::string answer_;
};

// Bytes of the context that fit; nothing if the question does not fit without any. The number of tokens grows with the
// text except for a merge at the cut, so the search may stop a character early; its result has been tested and fits.
std::optional<std::size_t> fitting_context(const Joined& joined, const std::string& context, std::int64_t most) {
  const auto fit = [&](std::size_t bytes) { return static_cast<std::int64_t>(joined.ids(bytes).size()) <= most; };
  if (fit(context.size())) return context.size();
  if (!fit(0)) return {};
  const auto places = cuts(context);
  std::size_t fits = 0;
  std::size_t too_long = places.size() - 1;
  while (too_long - fits > 1) {
    const auto middle = fits + (too_long - fits) / 2;
    (fit(places[middle]) ? fits : too_long) = middle;
  }
  return places[fits];
}

}  // namespace

std::string prompt_text(const std::string& question, const std::string& context) {
  return "Question: " + question + " Context: " + context + " Answer:";
}

std::int64_t least_tokens(const Question& question, const Tokenizer& tokenizer) {
  const std::string none;
  return static_cast<std::int64_t>(Joined(question, none, tokenizer).ids(0).size());
}

Sample make_sample(const Question& question, const std::string& context, const Tokenizer& tokenizer,
                   std::int64_t max_length, Loss loss) {
  const Joined joined(question, context, tokenizer);
  const auto kept = fitting_context(joined, context, max_length);
  if (!kept) {
    const auto least = least_tokens(question, tokenizer);
    throw Error(
        cat("question '", question.id, "' needs ", least, " tokens without any context, max_length is ", max_length),
        cat("raise max_length to ", least, " or more, or take the question out"));
  }
  Sample sample;
  sample.id = question.id;
  sample.references = question.answers;
  sample.tokens = joined.ids(*kept);
  const auto prompt = first_ids(tokenizer, joined.prompt(*kept));
  const auto differs = std::mismatch(prompt.begin(), prompt.end(), sample.tokens.begin(), sample.tokens.end()).first;
  sample.prompt_length = differs - prompt.begin();
  sample.is_target.assign(sample.tokens.size(), true);
  if (loss == Loss::answer) std::fill_n(sample.is_target.begin(), sample.prompt_length, false);
  return sample;
}

Sample make_prompt(const Question& question, const std::string& context, const Tokenizer& tokenizer,
                   std::int64_t most) {
  const Question open{question.id, question.text, question.context, {}};
  const Joined joined(open, context, tokenizer);
  const auto kept = fitting_context(joined, context, most);
  if (!kept) {
    throw Error(
        cat("question '", question.id, "' needs ", joined.ids(0).size(),
            " tokens without any context; besides an answer there is room for ", std::max<std::int64_t>(0, most)),
        "lower train.max_new_tokens, raise data.max_length, or take the question out");
  }
  // Every answer begins with a space; a token that spans it and the prompt's end is the answer's, as in training.
  const auto prompt = joined.ids(*kept);
  const auto followed = first_ids(tokenizer, joined.prompt(*kept) + " ");
  const auto same = std::mismatch(prompt.begin(), prompt.end(), followed.begin(), followed.end()).first;
  Sample sample;
  sample.id = question.id;
  sample.references = question.answers;
  sample.tokens.assign(prompt.begin(), same);
  sample.is_target.assign(sample.tokens.size(), false);
  sample.prompt_length = static_cast<std::int64_t>(sample.tokens.size());
  return sample;
}

}  // namespace squad
