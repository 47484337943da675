// What `data` prints of a sample.
#include "plugins/commands/data/sample_text.h"

#include <capstan_catch.h>

#include "support/tokenizer_files.h"
#include "tokenizer/byte_tokenizer.h"

using namespace capstan;

namespace {

data::Sample sample(const tokenizer::Tokenizer& tokenizer, const std::string& prompt, const std::string& answer) {
  data::Sample made;
  made.tokens = tokenizer.prefix_ids();
  const auto append = [&](const std::vector<std::int64_t>& ids) {
    made.tokens.insert(made.tokens.end(), ids.begin(), ids.end());
  };
  append(tokenizer.encode(prompt));
  made.prompt_length = static_cast<std::int64_t>(made.tokens.size());
  append(tokenizer.encode(answer));
  if (tokenizer.end_id() >= 0) made.tokens.push_back(tokenizer.end_id());
  made.is_target.assign(made.tokens.size(), true);
  std::fill_n(made.is_target.begin(), made.prompt_length, false);
  return made;
}

// As it is printed where nothing is dimmed.
std::string text_of(const data::Sample& sample, const tokenizer::Tokenizer& tokenizer) {
  std::string text;
  for (const auto& part : looking::sequence_parts(data::sequences_of(sample).front(), tokenizer))
    text += part.bears_loss ? part.text : "⟦" + part.text + "⟧";
  return text;
}

}  // namespace

TEST_CASE("what bears no loss is marked") {
  const tokenizer::ByteTokenizer tokenizer;
  const auto one = sample(tokenizer, "What?", " That\u00e9");
  const auto end = "[id " + std::to_string(tokenizer.end_id()) + "]";
  CHECK(text_of(one, tokenizer) == "⟦What?⟧ That\u00e9" + end);
  auto several = one;
  several.is_target[6] = false;
  CHECK(text_of(several, tokenizer) == "⟦What?⟧ ⟦T⟧hat\u00e9" + end);
  // Nothing predicts the first token, whatever is asked for.
  auto whole = one;
  whole.is_target.assign(whole.tokens.size(), true);
  CHECK(text_of(whole, tokenizer) == "⟦W⟧hat? That\u00e9" + end);
  CHECK(text_of({}, tokenizer).empty());
}

TEST_CASE("a tokenizer whose texts lose their first space keeps those inside of a sample") {
  const Scratch scratch;
  write_file(scratch / "tokenizer.json", sentencepiece_file().dump());
  const auto tokenizer = open_tokenizer(scratch.path().string());
  auto one = sample(*tokenizer, "ab", "");
  const auto more = tokenizer->encode("ab");  // with its space
  one.tokens.insert(one.tokens.end(), more.begin(), more.end());
  one.is_target.resize(one.tokens.size(), true);
  CHECK_THAT(text_of(one, *tokenizer), Contains("⟦[id 1]ab⟧") && Contains(" ab"));
}
