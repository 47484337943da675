#pragma once
#include <capstan/base/files.h>
#include <capstan/base/json.h>
#include <capstan/base/text.h>
#include <capstan/tokenizer/open.h>

#include <filesystem>
#include <string>

#include "checkpoint/scratch.h"

/// A byte-level tokenizer.json with a handful of tokens: a b c d, Ġ (the space), ab bc abc Ġa Ġab.
inline capstan::Json byte_level_file() {
  return capstan::Json::parse(R"({
    "version": "1.0", "truncation": null, "padding": null, "added_tokens": [], "normalizer": null,
    "pre_tokenizer": {"type": "ByteLevel", "add_prefix_space": false, "trim_offsets": true, "use_regex": true},
    "post_processor": {"type": "ByteLevel", "add_prefix_space": true, "trim_offsets": false, "use_regex": true},
    "decoder": {"type": "ByteLevel", "add_prefix_space": true, "trim_offsets": true, "use_regex": true},
    "model": {"type": "BPE", "dropout": null, "unk_token": null, "continuing_subword_prefix": null,
              "end_of_word_suffix": null, "fuse_unk": false, "byte_fallback": false, "ignore_merges": false,
              "vocab": {"a": 0, "b": 1, "c": 2, "d": 3, "Ġ": 4, "ab": 5, "bc": 6, "abc": 7, "Ġa": 8, "Ġab": 9},
              "merges": [["b", "c"], ["a", "b"], ["Ġ", "a"], ["Ġ", "ab"]]}})");
}

/// A SentencePiece-style one as Llama 2's: <unk> <s> </s>, the bytes 0xC3 and 0xA9, then ▁ a b ab ▁ab.
inline capstan::Json sentencepiece_file() {
  return capstan::Json::parse(R"({
    "version": "1.0", "truncation": null, "padding": null,
    "added_tokens": [
      {"id": 0, "content": "<unk>", "single_word": false, "lstrip": false, "rstrip": false, "normalized": false, "special": true},
      {"id": 1, "content": "<s>", "single_word": false, "lstrip": false, "rstrip": false, "normalized": false, "special": true},
      {"id": 2, "content": "</s>", "single_word": false, "lstrip": false, "rstrip": false, "normalized": false, "special": true}],
    "normalizer": {"type": "Sequence", "normalizers": [
      {"type": "Prepend", "prepend": "▁"}, {"type": "Replace", "pattern": {"String": " "}, "content": "▁"}]},
    "pre_tokenizer": null,
    "post_processor": {"type": "TemplateProcessing",
      "single": [{"SpecialToken": {"id": "<s>", "type_id": 0}}, {"Sequence": {"id": "A", "type_id": 0}}],
      "pair": [], "special_tokens": {"<s>": {"id": "<s>", "ids": [1], "tokens": ["<s>"]}}},
    "decoder": {"type": "Sequence", "decoders": [
      {"type": "Replace", "pattern": {"String": "▁"}, "content": " "}, {"type": "ByteFallback"}, {"type": "Fuse"},
      {"type": "Strip", "content": " ", "start": 1, "stop": 0}]},
    "model": {"type": "BPE", "dropout": null, "unk_token": "<unk>", "fuse_unk": true, "byte_fallback": true,
              "vocab": {"<unk>": 0, "<s>": 1, "</s>": 2, "<0xC3>": 3, "<0xA9>": 4, "▁": 5, "a": 6, "b": 7, "ab": 8, "▁ab": 9},
              "merges": ["a b", "▁ ab"]}})");
}

/// The file with one value replaced ("/model/dropout").
inline capstan::Json with(capstan::Json file, const std::string& pointer, const capstan::Json& value) {
  auto* at = &file;
  for (const auto& key : capstan::split(pointer.substr(1), '/'))
    at = at->is_array() ? &(*at)[std::stoul(key)] : &(*at)[key];
  *at = value;
  return file;
}

inline capstan::Json added_token(int id, const std::string& content,
                                 const capstan::Json& flags = capstan::Json::object()) {
  capstan::Json token{{"id", id},        {"content", content},  {"single_word", false}, {"lstrip", false},
                      {"rstrip", false}, {"normalized", false}, {"special", false}};
  token.update(flags);
  return token;
}

/// As a configuration that names it, or a model's folder, opens it.
inline std::shared_ptr<const capstan::tokenizer::Tokenizer> open_tokenizer(const std::string& name,
                                                                           const std::string& model_folder = {}) {
  static capstan::plugin::Host host;
  return capstan::tokenizer::open_named(name, model_folder, host).object;
}

/// Writes the file and opens it.
inline std::shared_ptr<const capstan::tokenizer::Tokenizer> opened(const capstan::Json& file) {
  const Scratch scratch;
  capstan::write_file(scratch / "tokenizer.json", file.dump());
  return open_tokenizer(scratch.path().string());
}
