#include "prompt.h"

#include <capstan/base/error.h>
#include <capstan/base/text.h>

#include <algorithm>
#include <string_view>

namespace squad {
namespace {

using capstan::data::Sample;
using capstan::data::Tokenizer;
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

// The parts of one question; the context's length is what may change.
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

// Bytes of the context that fit. The number of tokens grows with the text but for a merge at the cut, so the search
// may stop a character early; what it returns has been tried and fits.
std::size_t fitting_context(const Joined& joined, const Question& question, const std::string& context,
                            std::size_t max_length) {
  if (joined.ids(context.size()).size() <= max_length) return context.size();
  const auto least = joined.ids(0).size();
  if (least > max_length) {
    throw capstan::Error(capstan::cat("question '", question.id, "' needs ", least,
                                      " tokens without any context, max_length is ", max_length),
                         capstan::cat("raise max_length to ", least, " or more, or take the question out"));
  }
  const auto places = cuts(context);
  std::size_t fits = 0;
  std::size_t too_long = places.size() - 1;
  while (too_long - fits > 1) {
    const auto middle = fits + (too_long - fits) / 2;
    (joined.ids(places[middle]).size() <= max_length ? fits : too_long) = middle;
  }
  return places[fits];
}

}  // namespace

std::string prompt_text(const std::string& question, const std::string& context) {
  return "Question: " + question + " Context: " + context + " Answer:";
}

Sample make_sample(const Question& question, const std::string& context, const Tokenizer& tokenizer,
                   std::int64_t max_length, Loss loss) {
  const Joined joined(question, context, tokenizer);
  const auto kept = fitting_context(joined, question, context, static_cast<std::size_t>(max_length));
  Sample sample;
  sample.id = question.id;
  sample.references = question.answers;
  sample.tokens = joined.ids(kept);
  if (question.answers.empty()) {
    sample.prompt_length = static_cast<std::int64_t>(sample.tokens.size());
    sample.is_target.assign(sample.tokens.size(), false);
    return sample;
  }
  const auto prompt = first_ids(tokenizer, joined.prompt(kept));
  const auto differs = std::mismatch(prompt.begin(), prompt.end(), sample.tokens.begin(), sample.tokens.end()).first;
  sample.prompt_length = differs - prompt.begin();
  sample.is_target.assign(sample.tokens.size(), true);
  if (loss == Loss::answer) std::fill_n(sample.is_target.begin(), sample.prompt_length, false);
  return sample;
}

}  // namespace squad
