#include <capstan/base/error.h>
#include <capstan/base/json.h>
#include <capstan/base/text.h>
#include <capstan/plugin/host.h>
#include <capstan_catch.h>

#include <map>
#include <set>

#include "support/tokenizer_files.h"

namespace folder_tokens_test {

using namespace capstan;
using Ids = std::vector<std::int64_t>;
using json = capstan::Json;

namespace {

using Files = std::map<std::string, json>;

// The byte-level tokenizer (10 ids) with <s>, id 10, and </s>, id 11, which a template puts nowhere, and files beside
// it.
class Folder {
 public:
  explicit Folder(const Files& files) {
    const json flags{{"special", true}};
    const auto added = json::array({added_token(10, "<s>", flags), added_token(11, "</s>", flags)});
    write_file(scratch_ / "tokenizer.json", with(byte_level_file(), "/added_tokens", added).dump());
    for (const auto& [name, content] : files) write_file(scratch_ / (name + ".json"), content.dump());
  }
  std::shared_ptr<const tokenizer::Tokenizer> open() const { return open_tokenizer(scratch_.path().string()); }
  // What is wrong, a fault a line, each with its file.
  std::string refusal() const {
    try {
      open();
    } catch (const Error& error) {
      std::string text;
      for (const auto& fault : error.diagnostics())
        text += cat(std::filesystem::path(fault.where).filename().string(), ": ", fault.what, "\n");
      return text;
    }
    return "accepted";
  }

 private:
  Scratch scratch_;
};

Ids encoded(const Files& files, const std::string& text) { return Folder(files).open()->encode(text); }

json settings(const json& keys = json::object()) {
  json all{{"tokenizer_class", "PreTrainedTokenizerFast"}};
  all.update(keys);
  return all;
}

json flags_of(const std::string& content, const json& flags = json::object()) {
  auto token = added_token(0, content, flags);
  token.erase("id");
  return token;
}

}  // namespace

TEST_CASE("an end token that only special_tokens_map.json names, and which file goes first") {
  const auto end = [](const Files& files) { return Folder(files).open()->end_id(); };
  const json map{{"bos_token", "<s>"}, {"eos_token", "</s>"}};
  CHECK(end({{"special_tokens_map", map}}) == 11);
  CHECK(end({{"tokenizer_config", settings()}, {"special_tokens_map", map}}) == 11);
  CHECK(end({{"tokenizer_config", settings({{"eos_token", "<s>"}})}, {"special_tokens_map", map}}) == 11);
  CHECK(end({{"tokenizer_config", settings({{"eos_token", "<s>"}, {"added_tokens_decoder", json::object()}})},
             {"special_tokens_map", map}}) == 10);
  CHECK(end({{"tokenizer_config", settings({{"eos_token", "</s>"}})},
             {"special_tokens_map", {{"eos_token", nullptr}}}}) == -1);
  CHECK(end({{"special_tokens_map", {{"eos_token", flags_of("</s>")}}}}) == 11);
  CHECK(Folder({{"special_tokens_map", {{"pad_token", "<s>"}}}}).open()->pad_id() == 10);
}

TEST_CASE("tokens that only added_tokens_decoder or added_tokens.json has are one token each") {
  const json decoder{{"12", flags_of("<x>", {{"special", true}})}, {"13", flags_of("cd", {{"lstrip", true}})}};
  const Files listed{{"tokenizer_config", settings({{"added_tokens_decoder", decoder}})}};
  CHECK(encoded(listed, "a<x> cd<s>") == Ids{0, 12, 13, 10});
  CHECK(Folder(listed).open()->vocab_size() == 14);
  CHECK(Folder(listed).open()->decode({0, 12, 13}) == "acd");
  const Files older{{"added_tokens", {{"<x>", 12}, {"cd", 13}, {"</s>", 11}}}};
  CHECK(encoded(older, "a<x>cd</s>") == Ids{0, 12, 13, 11});
  CHECK(Folder(older).open()->decode({0, 12}) == "a<x>");
  auto both = listed;
  both["added_tokens"] = {{"<q>", 12}};  // is not read then
  CHECK(encoded(both, "<x>") == Ids{12});
}

TEST_CASE("a token that only a name gives gets the next id, one of the vocabulary keeps its own") {
  for (const auto* key : {"bos_token", "unk_token", "sep_token", "cls_token", "mask_token", "image_token"}) {
    INFO(key);
    CHECK(encoded({{"tokenizer_config", settings({{key, "<x>"}})}}, "a<x>") == Ids{0, 12});
  }
  for (const auto* key : {"extra_special_tokens", "additional_special_tokens"}) {
    INFO(key);
    CHECK(encoded({{"tokenizer_config", settings({{key, {"<x>", "</s>"}}})}}, "a<x>") == Ids{0, 12});
    CHECK(encoded({{"special_tokens_map", {{key, {"<x>", "</s>"}}}}}, "a<x>") == Ids{0, 12});
  }
  CHECK(encoded({{"tokenizer_config", settings({{"extra_special_tokens", {{"image_token", "<x>"}}}})}}, "<x>") ==
        Ids{12});
  // "b" is cut out of "ab" then, and gives no text.
  const Folder named({{"tokenizer_config", settings({{"sep_token", "b"}})}});
  CHECK(named.open()->encode("ab") == Ids{0, 1});
  CHECK(named.open()->decode({0, 1}) == "a");
  CHECK(encoded({}, "ab") == Ids{5});
}

TEST_CASE("flags of a known token are those of the file that lists it") {
  const json decoder{{"11", flags_of("</s>", {{"lstrip", true}})}};
  CHECK(encoded({{"tokenizer_config", settings({{"added_tokens_decoder", decoder}})}}, "a </s>") == Ids{0, 11});
  CHECK(encoded({}, "a </s>") == Ids{0, 4, 11});
}

TEST_CASE("special tokens that a class has where no file names them") {
  const auto end = [](const json& keys) { return Folder({{"tokenizer_config", keys}}).open()->end_id(); };
  CHECK(end({{"tokenizer_class", "LlamaTokenizerFast"}}) == 11);
  CHECK(end({{"tokenizer_class", "LlamaTokenizer"}, {"eos_token", nullptr}}) == -1);
  CHECK(end({{"tokenizer_class", "LlamaTokenizer"}, {"eos_token", "<s>"}}) == 10);
  CHECK(end({{"tokenizer_class", "GemmaTokenizer"}}) == -1);  // whose <eos> the tokenizer does not have
  CHECK(end({{"tokenizer_class", "PreTrainedTokenizerFast"}}) == -1);
}

TEST_CASE("ids that disagree, and keys that change ids or text in a way that is not supported, are refused") {
  const auto of_config = [](const json& keys) { return Folder({{"tokenizer_config", settings(keys)}}).refusal(); };
  CHECK(of_config({{"added_tokens_decoder", {{"20", flags_of("<x>")}}}}) ==
        "tokenizer_config.json: added_tokens_decoder.20 gives \"<x>\" the id 20, tokenizer.json makes it 12\n");
  CHECK(of_config({{"added_tokens_decoder", {{"x", "<x>"}}}}) ==
        "tokenizer_config.json: added_tokens_decoder.x is no id with a token's object\n");
  CHECK(Folder({{"added_tokens", {{"</s>", 12}}}}).refusal() ==
        "added_tokens.json: the file gives \"</s>\" the id 12, tokenizer.json makes it 11\n");
  CHECK(Folder({{"added_tokens", {{"<x>", "12"}}}}).refusal().starts_with("added_tokens.json: <x> is \"12\", not a "));
  CHECK(of_config({{"eos_token", "<eos>"}}) ==
        "tokenizer_config.json: eos_token is \"<eos>\", which the tokenizer does not have\n");
  CHECK(of_config({{"pad_token", 3}}) == "tokenizer_config.json: pad_token is no token\n");
  CHECK(of_config({{"extra_special_tokens", "<x>"}}) == "tokenizer_config.json: extra_special_tokens is no list\n");
  CHECK(of_config({{"split_special_tokens", true}}) ==
        "tokenizer_config.json: split_special_tokens = true is not supported\n");
  CHECK(of_config({{"fix_mistral_regex", true}}) ==
        "tokenizer_config.json: fix_mistral_regex = true is not supported\n");
  CHECK(of_config({{"fast_tokenizer_files", {"tokenizer.4.0.json", "tokenizer.json"}}}) ==
        "tokenizer_config.json: fast_tokenizer_files = [\"tokenizer.4.0.json\",\"tokenizer.json\"] is not supported\n");
  CHECK(of_config({{"tokenizer_class", "GPT2Tokenizer"}, {"add_prefix_space", true}}) ==
        "tokenizer_config.json: add_prefix_space is true, but the steps of tokenizer.json put no space before a text, "
        "and "
        "transformers would go by it for a GPT2Tokenizer\n");
}

TEST_CASE("keys that transformers 5 ignores for a BPE with a tokenizer.json change nothing") {
  const auto plain = Folder({}).open();
  for (const auto& keys :
       {json{{"add_bos_token", true}, {"add_eos_token", true}}, json{{"add_prefix_space", true}},
        json{{"legacy", true}}, json{{"clean_up_tokenization_spaces", true}},
        json{{"do_lower_case", true}, {"strip_accents", true}},
        json{{"model_max_length", 2}, {"padding_side", "left"}, {"truncation_side", "left"}},
        json{{"split_special_tokens", false}, {"tokenize_chinese_chars", true}, {"sp_model_kwargs", {{"alpha", 0.1}}}},
        json{{"tokenizer_class", "GPT2Tokenizer"}, {"add_prefix_space", false}}, json{{"a key of tomorrow", 1}}}) {
    INFO(keys);
    const auto tokenizer = Folder({{"tokenizer_config", settings(keys)}}).open();
    CHECK(tokenizer->encode("ab abc</s> d") == plain->encode("ab abc</s> d"));
    CHECK(tokenizer->prefix_ids().empty());
    CHECK(tokenizer->suffix_ids().empty());
    CHECK(tokenizer->decode({5, 8}) == plain->decode({5, 8}));
  }
}

TEST_CASE("the plugin's tables have every key once, with words, and token caches depend on all files") {
  plugin::Host host;
  const auto& plugin = host.load("tokenizer", "hf");
  std::set<std::string> files;
  for (const auto& table : plugin.file_keys) {
    files.insert(table.file);
    std::set<std::string> names;
    for (const auto& key : table.keys) {
      INFO(table.file << ": " << key.name);
      CHECK(names.insert(key.name).second);
      CHECK_FALSE(key.words.empty());
      CHECK((key.use == config::FileKey::Use::only) == !key.allowed.empty());
    }
  }
  CHECK(files == std::set<std::string>{"added_tokens.json", "special_tokens_map.json", "tokenizer.json",
                                       "tokenizer_config.json"});
  const Scratch scratch;
  write_file(scratch / "tokenizer.json", byte_level_file().dump());
  std::set<std::string> read;
  for (const auto& file : tokenizer::open_named(scratch.path().string(), {}, host).files())
    read.insert(file.filename().string());
  files.insert({"generation_config.json", "config.json"});
  CHECK(read == files);
}

}  // namespace folder_tokens_test
