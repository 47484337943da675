#include "file_tables.h"

#include <initializer_list>
#include <utility>

namespace hf {

using capstan::config::FileKey;
using capstan::config::FileKeys;
using Use = FileKey::Use;

namespace {

void add(FileKeys& table, std::initializer_list<const char*> names, Use use, const char* words) {
  for (const auto* name : names) table.keys.push_back({name, use, words});
}

void add_only(FileKeys& table, const char* name, std::vector<std::string> allowed, const char* words) {
  table.keys.push_back({name, Use::only, words, std::move(allowed)});
}

FileKeys table_of_tokenizer() {
  FileKeys table{"tokenizer.json", "The `tokenizers` package writes it: the tokenizer itself.", {}};
  add_only(table, "version", {"\"1.0\""}, "save it again with the `tokenizers` package");
  add(table, {"truncation", "padding"}, Use::neutral,
      "they are for that package's own batches; data.max_length and data.too_long say what is cut here");
  add(table, {"added_tokens", "normalizer", "pre_tokenizer", "post_processor", "decoder"}, Use::used,
      "each kind of step and each key of it is known, or refused by its name (docs/data.md)");
  add(table, {"model"}, Use::used, "the vocabulary and how words are merged");
  add_only(table, "model.type", {"\"BPE\""}, "use a tokenizer plugin, which can read any file (docs/plugins.md)");
  add_only(table, "model.dropout", {"0", "0.0"}, "set it to null: merges are then always done");
  for (const auto* name : {"model.continuing_subword_prefix", "model.end_of_word_suffix"})
    add_only(table, name, {"\"\""}, "use a tokenizer plugin, which can read any file (docs/plugins.md)");
  add(table,
      {"model.unk_token", "model.fuse_unk", "model.byte_fallback", "model.ignore_merges", "model.vocab",
       "model.merges"},
      Use::used, "as the package reads it");
  return table;
}

void add_special_tokens(FileKeys& table) {
  add(table, {"eos_token"}, Use::used, "the token that training puts after an answer, and that ends generation");
  add(table, {"pad_token"}, Use::used, "it fills rows up to a batch's length");
  add(table, {"bos_token", "unk_token", "sep_token", "cls_token", "mask_token"}, Use::used,
      "a token that is found in the text before it is cut; tokenizer.json's post_processor says what is put around "
      "one");
  add(table, {"additional_special_tokens", "extra_special_tokens", "model_specific_special_tokens", "*_token"},
      Use::used, "tokens that are found in the text before it is cut");
}

// What changes ids or text for some classes or some files.
void add_judged(FileKeys& table) {
  add(table, {"added_tokens_decoder"}, Use::used,
      "tokens that are found in the text before it is cut, with ids that tokenizer.json must agree to; where it "
      "stands, "
      "special_tokens_map.json and added_tokens.json are not read, as in transformers");
  add(table, {"tokenizer_class"}, Use::used,
      "special tokens that its class has where no file names them; the steps are those of tokenizer.json");
  add(table, {"add_prefix_space"}, Use::used,
      "it must say what tokenizer.json's steps do if the class is one that transformers builds by it");
  add_only(table, "split_special_tokens", {"false"}, "remove it: special tokens in a text are then one token each");
  add_only(table, "clean_up_tokenization_spaces_for_bpe_even_though_it_will_corrupt_output", {"false"}, "remove it");
  add_only(table, "fix_mistral_regex", {"false"},
           "save the tokenizer with transformers, so that tokenizer.json has the corrected expression, and remove it");
  add_only(table, "fast_tokenizer_files", {R"(["tokenizer.json"])", "[]"},
           "rename the file that transformers chooses of these to tokenizer.json, and remove the key");
}

void add_neutral(FileKeys& table) {
  add(table, {"add_bos_token", "add_eos_token"}, Use::neutral,
      "tokenizer.json's post_processor says what is put around a text; transformers 5 ignores this beside such a file");
  add(table, {"clean_up_tokenization_spaces"}, Use::neutral, "transformers ignores it for a BPE");
  add(table,
      {"legacy", "sp_model_kwargs", "spaces_between_special_tokens", "use_fast", "from_slow", "errors", "unk_id"},
      Use::neutral, "it is for tokenizers without a tokenizer.json, whose steps say the same by themselves");
  add(table, {"do_lower_case", "strip_accents", "tokenize_chinese_chars", "do_basic_tokenize", "never_split"},
      Use::neutral, "only the classes of WordPiece vocabularies read it; a BPE's normalizer is in tokenizer.json");
  add(table, {"model_max_length", "max_len", "max_length", "stride", "truncation_side", "truncation_strategy"},
      Use::neutral, "data.max_length and data.too_long say what is cut");
  add(table, {"padding_side", "pad_to_multiple_of", "pad_token_type_id"}, Use::neutral,
      "rows are filled at their end, and what fills them bears no loss");
  add(table, {"chat_template"}, Use::used, "how conversations are written with data.chat_template, and questions");
  add(table, {"response_template", "response_schema", "use_default_system_prompt"}, Use::neutral,
      "the chat template says how a conversation is written");
  add(table, {"auto_map"}, Use::neutral, "no Python code is run: tokenizer.json has the steps");
  add(table, {"model_input_names", "processor_class", "image_processor_type", "return_token_type_ids"}, Use::neutral,
      "it says which inputs of a model are made");
  add(table,
      {"name_or_path", "special_tokens_map_file", "tokenizer_file", "vocab_file", "merges_file", "init_inputs",
       "backend", "is_local", "local_files_only", "files_loaded", "trust_remote_code", "transformers_version",
       "_commit_hash", "device_map", "slow_tokenizer_class", "verbose", "tokenizer_type", "model_type"},
      Use::neutral, "it says where the file came from");
}

}  // namespace

const FileKeys& tokenizer_keys() {
  static const auto table = table_of_tokenizer();
  return table;
}

const FileKeys& tokenizer_config_keys() {
  static const auto table = [] {
    FileKeys made{
        "tokenizer_config.json", "transformers writes it beside a tokenizer.json.", {}, FileKeys::Unknown::named};
    add_special_tokens(made);
    add_judged(made);
    add_neutral(made);
    return made;
  }();
  return table;
}

const FileKeys& special_tokens_map_keys() {
  static const auto table = [] {
    FileKeys made{"special_tokens_map.json",
                  "transformers 4 and earlier write it: its tokens go before those of tokenizer_config.json, unless "
                  "that has added_tokens_decoder.",
                  {},
                  FileKeys::Unknown::named};
    add_special_tokens(made);
    return made;
  }();
  return table;
}

const FileKeys& added_tokens_keys() {
  static const FileKeys table{
      "added_tokens.json",
      "transformers 4 and earlier write it: tokens and their ids. It is read unless tokenizer_config.json has "
      "added_tokens_decoder.",
      {{"*", Use::used, "a token that is found in the text before it is cut; tokenizer.json must agree to its id"}}};
  return table;
}

std::vector<std::string> names_in(const FileKeys& table, std::string_view prefix) {
  std::vector<std::string> names;
  for (const auto& key : table.keys) {
    std::string_view name = key.name;
    if (!name.starts_with(prefix)) continue;
    name.remove_prefix(prefix.size());
    if (name.find('.') == std::string_view::npos) names.emplace_back(name);
  }
  return names;
}

}  // namespace hf
