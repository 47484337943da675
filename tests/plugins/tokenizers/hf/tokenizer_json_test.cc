#include <capstan/base/error.h>
#include <capstan_catch.h>

#include "support/tokenizer_files.h"

using namespace capstan;
using Ids = std::vector<std::int64_t>;
using nlohmann::json;

TEST_CASE("byte-level BPE merges the earliest pair of the list first, and the leftmost of equal ones") {
  const auto tokenizer = opened(byte_level_file());
  CHECK(tokenizer->vocab_size() == 10);
  CHECK(tokenizer->encode("").empty());
  CHECK(tokenizer->encode("abc") == Ids{0, 6});  // b c comes before a b
  CHECK(tokenizer->encode("abab ab") == Ids{5, 5, 9});
  CHECK(tokenizer->encode("a  b") == Ids{0, 4, 4, 1});
  CHECK(tokenizer->encode("axb") == Ids{5});  // no unknown token: a byte that is not in the vocabulary is lost
  CHECK(tokenizer->decode({9, 6, 4, 12345, -1, 0}) == " abbc a");
}

TEST_CASE("a token that no merge makes is found whole with ignore_merges only") {
  CHECK(opened(byte_level_file())->encode("abc") == Ids{0, 6});
  CHECK(opened(with(byte_level_file(), "/model/ignore_merges", true))->encode("abc") == Ids{7});
}

TEST_CASE("ill-formed UTF-8 is encoded as U+FFFD") {
  auto file = byte_level_file();
  file["model"]["vocab"].update({{"ï", 10}, {"¿", 11}, {"½", 12}});  // EF BF BD
  CHECK(opened(file)->encode("a\xC3(b") == Ids{0, 10, 11, 12, 1});
  CHECK(opened(file)->decode({0, 10, 11, 1}) == "a\uFFFDb");
}

TEST_CASE("Llama 2's normalizer puts a space before every piece, Metaspace before the first") {
  const auto llama2 = opened(sentencepiece_file());
  CHECK(llama2->encode("ab</s>ab") == Ids{9, 2, 9});
  auto file = with(sentencepiece_file(), "/normalizer", nullptr);
  file["pre_tokenizer"] = {{"type", "Metaspace"}, {"replacement", "▁"}, {"prepend_scheme", "first"}, {"split", false}};
  CHECK(opened(file)->encode("ab</s>ab") == Ids{9, 2, 8});
  CHECK(opened(file)->encode("</s>ab ab") == Ids{2, 8, 9});
  file["pre_tokenizer"]["prepend_scheme"] = "always";
  CHECK(opened(file)->encode("ab</s>ab") == Ids{9, 2, 9});
  file["pre_tokenizer"]["prepend_scheme"] = "never";
  CHECK(opened(file)->encode("ab</s>ab") == Ids{8, 2, 8});
}

TEST_CASE("the template's ids stand before a text, an empty one too") {
  const auto tokenizer = opened(sentencepiece_file());
  CHECK(tokenizer->prefix_ids() == Ids{1});
  CHECK(tokenizer->suffix_ids().empty());
  CHECK(tokenizer->encode("").empty());
  CHECK(opened(byte_level_file())->prefix_ids().empty());
  auto file = sentencepiece_file();
  file["post_processor"]["single"].push_back({{"SpecialToken", {{"id", "</s>"}, {"type_id", 0}}}});
  file["post_processor"]["special_tokens"]["</s>"] = {{"id", "</s>"}, {"ids", {2, 0}}, {"tokens", {"</s>", "<unk>"}}};
  CHECK(opened(file)->suffix_ids() == Ids{2, 0});
}

TEST_CASE("characters outside the vocabulary become their bytes' tokens, else one unknown token for all in a row") {
  const auto tokenizer = opened(sentencepiece_file());
  CHECK(tokenizer->encode("é") == Ids{5, 3, 4});
  CHECK(tokenizer->encode("漢字b") == Ids{5, 0, 7});
  CHECK(opened(with(sentencepiece_file(), "/model/fuse_unk", false))->encode("漢字b") == Ids{5, 0, 0, 7});
  CHECK(tokenizer->decode({9, 3, 4, 5, 6}) == "abé a");
  CHECK(tokenizer->decode({3, 3, 4, 6}) == "\uFFFD\uFFFD\uFFFDa");  // a run that is no UTF-8: one for each byte
  CHECK(tokenizer->decode({1, 9, 2}) == "ab");                      // special tokens give no text
}

TEST_CASE("a text without pieces merges in one heap, however long") {
  auto file = sentencepiece_file();
  std::string token = "a";
  for (int id = 10; id < 20; ++id, token += token) {
    file["model"]["merges"].push_back(json::array({token, token}));
    file["model"]["vocab"][token + token] = id;
  }
  CHECK(opened(file)->encode(std::string(300'000, 'a')).size() == 1 + 300'000 / 1024 + 5);  // 992 = 512+256+128+64+32
}

TEST_CASE("added tokens are found before anything else, with their flags") {
  auto file = byte_level_file();
  file["added_tokens"] = {added_token(10, "<x>"),
                          added_token(11, "<x>y"),
                          added_token(12, "[l]", {{"lstrip", true}}),
                          added_token(13, "[r]", {{"rstrip", true}}),
                          added_token(14, "dd", {{"single_word", true}}),
                          added_token(15, "<e>", {{"special", true}})};
  const auto tokenizer = opened(file);
  CHECK(tokenizer->vocab_size() == 16);
  CHECK(tokenizer->encode("a<x>b<x>y<x") == Ids{0, 10, 1, 11});
  CHECK(tokenizer->encode("a  [l] a  [r]  a") == Ids{0, 12, 8, 4, 4, 13, 0});
  CHECK(tokenizer->encode("dd add dd") == Ids{14, 8, 3, 3, 4, 14});
  CHECK(tokenizer->decode(tokenizer->encode("a<x><e>b")) == "a<x>b");
}

namespace {

std::string refusal(const json& file) {
  const Scratch scratch;
  write_file(scratch / "tokenizer.json", file.dump());
  try {
    open_tokenizer((scratch / "tokenizer.json").string());
  } catch (const Error& error) {
    std::string text;
    for (const auto& fault : error.diagnostics()) {
      CHECK(fault.where == (scratch / "tokenizer.json").string());
      text += fault.what + "\n";
    }
    return text;
  }
  return "accepted";
}

}  // namespace

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

TEST_CASE("steps before the model that are not supported are refused by their name") {
  const auto bytes = byte_level_file();
  const auto split = [](const std::string& regex, const std::string& behavior) {
    return json{{"type", "Split"}, {"pattern", {{"Regex", regex}}}, {"behavior", behavior}, {"invert", true}};
  };
  const json metaspace{{"type", "Metaspace"}, {"replacement", "▁"}};
  const std::vector<std::pair<json, std::string>> cases{
      {with(bytes, "/normalizer", {{"type", "Precompiled"}, {"precompiled_charsmap", ""}}),
       "normalizer is of type Precompiled, which is not supported (supported: NFC, NFD, NFKC, NFKD, Lowercase, "
       "Prepend, Replace, Strip, StripAccents, Sequence)\n"},
      {with(sentencepiece_file(), "/normalizer/normalizers/1/pattern", {{"Regex", "(a"}}),
       "normalizer.normalizers[1].pattern is \"(a\": end pattern with unmatched parenthesis\n"},
      {with(sentencepiece_file(), "/normalizer/normalizers/1/pattern/String", ""),
       "normalizer.normalizers[1].pattern is empty\n"},
      {with(bytes, "/pre_tokenizer", split("\\p{Greek}+", "Kept")),
       "pre_tokenizer.behavior is Kept, not one of Isolated, Removed, MergedWithPrevious, MergedWithNext, Contiguous\n"
       "pre_tokenizer.pattern is \"\\p{Greek}+\": \\p{Greek} is not supported in a pattern (supported: \\p{…} of "
       "general categories and of Han, \\s, \\d, \\w, \\b)\n"},
      {with(bytes, "/pre_tokenizer", split("[[:alpha:]]", "Removed")),
       "pre_tokenizer.pattern is \"[[:alpha:]]\": [:alpha: is not supported in a pattern (supported: \\p{…} of general "
       "categories and of Han, \\s, \\d, \\w, \\b)\n"},
      {with(bytes, "/pre_tokenizer", {{"type", "Split"}, {"behavior", "Removed"}}),
       "pre_tokenizer.pattern is no object\n"},
      {with(sentencepiece_file(), "/normalizer/normalizers/1/pattern", {{"Regex", 3}}),
       "normalizer.normalizers[1].pattern.Regex is no text\nnormalizer.normalizers[1].pattern is empty\n"},
      {with(bytes, "/pre_tokenizer", {{"type", "Whitespace"}}),
       "pre_tokenizer is of type Whitespace, which is not supported (supported: Split, Digits, Punctuation, ByteLevel, "
       "Metaspace, Sequence)\n"},
      {with(bytes, "/pre_tokenizer",
            {{"type", "Sequence"}, {"pretokenizers", {bytes["pre_tokenizer"], metaspace, bytes["pre_tokenizer"]}}}),
       "pre_tokenizer.pretokenizers[1] comes after ByteLevel, which is not supported\npre_tokenizer.pretokenizers[2] "
       "is a second ByteLevel, which is not supported\n"},
      {with(with(bytes, "/normalizer", {{"type", "Strip"}}), "/added_tokens",
            json::array({added_token(10, " ", {{"normalized", true}})})),
       "added_tokens has \" \", which the normalizer removes\n"},
      {with(sentencepiece_file(), "/pre_tokenizer",
            {{"type", "Metaspace"}, {"replacement", "▁"}, {"prepend_scheme", "first"}}),
       "pre_tokenizer prepends to the first piece after a normalizer, which is not supported\n"},
      {with(bytes, "/pre_tokenizer",
            {{"type", "Metaspace"}, {"replacement", "__"}, {"prepend_scheme", "last"}, {"add_prefix_space", false}}),
       "pre_tokenizer.replacement is \"__\", which is not one character\npre_tokenizer.prepend_scheme is last, not one "
       "of first, always, never\npre_tokenizer.add_prefix_space is false, but prepend_scheme is last\n"},
  };
  for (const auto& [file, expected] : cases) CHECK(refusal(file) == expected);
  CHECK_THROWS_WITH(opened(with(bytes, "/model/type", "Unigram")),
                    Contains("fix: use a byte-level or a SentencePiece-style BPE") && Contains("a tokenizer plugin"));
}

TEST_CASE("steps after the model that are not supported are refused by their name") {
  const auto bytes = byte_level_file();
  const std::vector<std::pair<json, std::string>> cases{
      {with(bytes, "/post_processor", {{"type", "RobertaProcessing"}}),
       "post_processor is of type RobertaProcessing, which is not supported (supported: TemplateProcessing, ByteLevel, "
       "Sequence)\n"},
      {with(sentencepiece_file(), "/post_processor/single", json::array()),
       "post_processor.single holds the text 0 times, which is not supported (supported: once)\n"},
      {with(sentencepiece_file(), "/post_processor/special_tokens", json::object()),
       "post_processor.special_tokens.<s>.ids is no list\n"},
      {with(bytes, "/decoder", nullptr),
       "decoder names no type (supported: ByteLevel, ByteFallback, Fuse, Metaspace, Replace, Strip, Sequence)\n"},
      {with(sentencepiece_file(), "/decoder/decoders/3/content", ""),
       "decoder.decoders[3].content is \"\", which is not one character\n"},
      {with(sentencepiece_file(), "/decoder/decoders/3/start", -1),
       "decoder.decoders[3].start is -1, not a whole number from 0 to 2147483647\n"},
  };
  for (const auto& [file, expected] : cases) CHECK(refusal(file) == expected);
}

TEST_CASE("a second Metaspace is refused") {
  const json metaspace{{"type", "Metaspace"}, {"replacement", "▁"}};
  auto file = byte_level_file();
  file["pre_tokenizer"] = {{"type", "Sequence"}, {"pretokenizers", {metaspace, metaspace}}};
  CHECK(refusal(file) == "pre_tokenizer.pretokenizers[1] is a second Metaspace, which is not supported\n");
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
