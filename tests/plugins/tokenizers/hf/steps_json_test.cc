// The steps around the model. What today's files make of them is compared with the tokenizers package in
// tests/system/parity.
#include <capstan/base/error.h>
#include <capstan/base/json.h>
#include <capstan_catch.h>

#include "plugins/tokenizers/hf/refusal.h"
#include "support/tokenizer_files.h"

namespace steps_json_test {

using namespace capstan;
using Ids = std::vector<std::int64_t>;
using json = capstan::Json;

namespace {

json sequence(const json& steps) { return {{"type", "Sequence"}, {"pretokenizers", steps}}; }

}  // namespace

TEST_CASE("Qwen's file: composed characters, each digit a piece") {
  auto file = byte_level_file();
  file["model"]["vocab"].update({{"1", 10}, {"2", 11}, {"12", 12}, {"Ã", 13}, {"©", 14}});
  file["model"]["merges"].push_back({"1", "2"});
  file["normalizer"] = {{"type", "NFC"}};
  const std::string pattern =
      R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)";
  const Json split{{"type", "Split"}, {"pattern", {{"Regex", pattern}}}, {"behavior", "Isolated"}, {"invert", false}};
  const Json bytes{{"type", "ByteLevel"}, {"add_prefix_space", false}, {"use_regex", false}};
  file["pre_tokenizer"] = sequence({split, bytes});
  CHECK(opened(file)->encode("ab12 ab") == Ids{5, 10, 11, 9});
  CHECK(opened(file)->encode("e\u0301") == Ids{13, 14});
  file["added_tokens"] = {added_token(15, "a\u0301", {{"normalized", true}}), added_token(16, "e\u0301")};
  CHECK(opened(file)->encode("áe\u0301é") == Ids{15, 16, 13, 14});  // raw ones are found in the text as it is
}

TEST_CASE("Gemma's file: spaces become a character, and Split finds none") {
  auto file = sentencepiece_file();
  file["normalizer"] = {{"type", "Replace"}, {"pattern", {{"String", " "}}}, {"content", "▁"}};
  file["pre_tokenizer"] = {
      {"type", "Split"}, {"pattern", {{"String", " "}}}, {"behavior", "MergedWithPrevious"}, {"invert", false}};
  CHECK(opened(file)->encode("ab ab") == Ids{8, 9});
  file["normalizer"] = nullptr;
  file["model"]["vocab"][" "] = 10;
  CHECK(opened(file)->encode("ab ab") == Ids{8, 10, 8});
}

TEST_CASE("steps after ByteLevel cut its characters, even inside one of the text's") {
  auto file = byte_level_file();
  file["model"]["vocab"].update({{"Â", 10}, {"½", 11}, {"Â½", 12}, {"1", 13}});
  file["model"]["merges"].push_back({"Â", "½"});
  const Json digits{{"type", "Digits"}, {"individual_digits", true}};
  CHECK(opened(file)->encode("½1a b") == Ids{12, 13, 0, 4, 1});
  file["pre_tokenizer"] = sequence({file["pre_tokenizer"], digits});
  CHECK(opened(file)->encode("½1a b") == Ids{10, 11, 13, 0, 4, 1});  // the byte BD is written as "½", a number
}

TEST_CASE("Digits, Punctuation and Metaspace's decoder") {
  auto file = byte_level_file();
  file["model"]["vocab"].update({{"1", 10}, {"!", 11}, {"11", 12}, {"!!", 13}, {"a1", 14}});
  for (const char* pair : {"1", "!"}) file["model"]["merges"].push_back({pair, pair});
  file["model"]["merges"].push_back({"a", "1"});
  const auto steps = [&](const Json& step) {
    file["pre_tokenizer"] =
        sequence({step, {{"type", "ByteLevel"}, {"add_prefix_space", false}, {"use_regex", false}}});
    return opened(file)->encode("a11!!");
  };
  CHECK(steps({{"type", "Digits"}, {"individual_digits", false}}) == Ids{0, 12, 13});
  CHECK(steps({{"type", "Digits"}, {"individual_digits", true}}) == Ids{0, 10, 10, 13});
  CHECK(steps({{"type", "Punctuation"}}) == Ids{0, 12, 11, 11});
  CHECK(steps({{"type", "Punctuation"}, {"behavior", "Contiguous"}}) == Ids{0, 12, 13});
  auto words = sentencepiece_file();
  words["decoder"] = {{"type", "Metaspace"}, {"replacement", "▁"}, {"prepend_scheme", "always"}, {"split", true}};
  CHECK(opened(words)->decode({9, 9}) == "ab ab");
  words["decoder"]["prepend_scheme"] = "never";
  CHECK(opened(words)->decode({9, 9}) == " ab ab");
  words["decoder"] = {{"type", "Replace"}, {"pattern", {{"Regex", "[▁a]"}}}, {"content", "-"}};
  CHECK(opened(words)->decode({9, 6}) == "--b-");
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

}  // namespace steps_json_test
