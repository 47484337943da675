#include <capstan/base/error.h>
#include <capstan/base/json.h>
#include <capstan_catch.h>

#include "plugins/tokenizers/hf/refusal.h"
#include "support/tokenizer_files.h"

namespace tokenizer_json_test {

using namespace capstan;
using Ids = std::vector<std::int64_t>;
using json = capstan::Json;

TEST_CASE("a model and added tokens that are not supported are refused by their name") {
  const auto bytes = byte_level_file();
  const std::vector<std::pair<json, std::string>> cases{
      {with(bytes, "/version", "2.0"), "version is \"2.0\", not \"1.0\"\n"},
      {with(bytes, "/news", 1), "news is not supported\n"},
      {with(bytes, "/model/type", "WordPiece"),
       "model is of type WordPiece, which is not supported (supported: BPE)\n"},
      {with(bytes, "/model/dropout", 0.1), "model.dropout is set, which is not supported\n"},
      {with(bytes, "/model/end_of_word_suffix", "</w>"),
       "model.end_of_word_suffix is \"</w>\", which is not supported\n"},
      {with(bytes, "/model/continuing_subword_prefix", "##"),
       "model.continuing_subword_prefix is \"##\", which is not supported\n"},
      {with(bytes, "/model/fuse_unk", 1), "model.fuse_unk is neither true nor false\n"},
      {with(bytes, "/model/unk_token", "<unk>"), "model.unk_token is \"<unk>\", which is not in model.vocab\n"},
      {with(bytes, "/model/vocab/a", 1),
       "model.vocab gives \"b\" the id 1, where each needs a whole number of its own, from 0 to 2147483647\n"},
      {with(with(bytes, "/model/vocab", json::object()), "/model/merges", json::array()),
       "model.vocab is empty: no text has tokens then\n"},
      {with(bytes, "/model/merges/0", {"b", "x"}),
       "model.merges holds [\"b\",\"x\"], but \"x\" is not in model.vocab\n"},
      {with(bytes, "/model/merges/0", "b c d"), "model.merges holds \"b c d\", which is no pair of tokens\n"},
      {with(bytes, "/added_tokens", json::array({added_token(7, "<x>")})),
       "added_tokens[0] gives \"<x>\" the id 7, the vocabulary makes it 10\n"},
      {with(bytes, "/added_tokens", {added_token(11, "<x>"), added_token(12, "<y>")}),
       "added_tokens[0] gives \"<x>\" the id 11, the vocabulary makes it 10\n"},
      {with(with(bytes, "/model/type", "Unigram"), "/added_tokens", json::array({added_token(10, "<x>")})),
       "model is of type Unigram, which is not supported (supported: BPE)\n"},
      {with(bytes, "/added_tokens", {added_token(10, "<x>"), added_token(10, "<x>")}),
       "added_tokens[1] is \"<x>\", which is there already\nadded_tokens[1] gives \"<x>\" the id 10, the vocabulary "
       "makes it 11\n"},
      {with(bytes, "/added_tokens", json::array({added_token(10, "")})), "added_tokens[0] has no content\n"},
  };
  for (const auto& [file, expected] : cases) CHECK(refusal(file) == expected);
}

TEST_CASE("GPT-2's own file names no model type and writes merges as texts") {
  auto file = with(byte_level_file(), "/model/merges", {"#version: 0.2", "b c", "a b"});
  file["model"].erase("type");
  file["model"].update({{"continuing_subword_prefix", ""}, {"end_of_word_suffix", ""}});
  CHECK(opened(file)->encode("abab") == Ids{5, 5});
}

TEST_CASE("what the file says of truncation and padding changes nothing") {
  const auto file = with(byte_level_file(), "/truncation", {{"max_length", 2}, {"stride", 0}});
  CHECK(opened(file)->encode("ab ab ab ab").size() == 4);
}

TEST_CASE("names and files that do not exist, and files that are none") {
  const Scratch scratch;
  const auto folder = scratch.path().string();
  CHECK_THROWS_WITH(open_tokenizer(folder), Contains("there is no tokenizer.json in " + folder) &&
                                                Contains("AutoTokenizer.from_pretrained(\"" + folder));
  CHECK_THROWS_WITH(open_tokenizer("auto", folder), Contains("there is no tokenizer.json in " + folder));
  CHECK_THROWS_WITH(
      open_tokenizer(folder + "/t.json"),
      "there is no tokenizer " + folder + "/t.json\n    fix: name a tokenizer.json, or a folder that holds one");
  CHECK(open_tokenizer("auto")->name() == "byte");
  write_file(scratch / "tokenizer.json", "{");
  CHECK_THROWS_WITH(open_tokenizer(folder),
                    Contains("tokenizer.json: it is not JSON: ") && Contains("fix: download it again"));
}

}  // namespace tokenizer_json_test
