#include "added_ids.h"

#include <capstan/base/error.h>
#include <capstan/base/text.h>

#include <algorithm>
#include <tuple>

#include "normalize.h"

namespace hf {

using namespace capstan;

namespace {

bool is_same(const AddedToken& a, const AddedToken& b) {
  const auto parts = [](const AddedToken& token) {
    return std::tie(token.content, token.single_word, token.lstrip, token.rstrip, token.normalized, token.special);
  };
  return parts(a) == parts(b);
}

template <class Tokens>
auto found_in(Tokens& tokens, const std::string& content) {
  return std::find_if(tokens.begin(), tokens.end(), [&](const auto& token) { return token.content == content; });
}

class Adder {
 public:
  Adder(TokenizerSpec& spec, const FolderTokens& tokens)
      : spec_(spec), tokens_(tokens), size_(static_cast<std::int64_t>(spec.model.vocabulary.size())) {
    for (const auto& [token, id] : spec.model.vocabulary) ids_.emplace(token, id);
    for (const auto& token : spec.added) {
      ids_.emplace(token.content, token.id);
      last_ = std::max<std::int64_t>(last_, token.id);
    }
  }

  TokenIds add() {
    for (auto& token : wanted()) add(token);
    for (const auto* list : {&tokens_.listed, &tokens_.repeated}) {
      for (const auto& [token, name] : *list) judge_id(token, name);
    }
    faults_.throw_if_any();
    std::stable_partition(spec_.added.begin(), spec_.added.end(), [](const auto& token) { return token.special; });
    return std::move(ids_);
  }

 private:
  // What transformers adds, in its order: those with an id, then those that neither tokenizer.json nor an id knows.
  std::vector<AddedToken> wanted() {
    std::vector<AddedToken> all;
    for (const auto& [token, name] : tokens_.listed) all.push_back(token);
    const auto listed = all;
    const auto add_new = [&](const AddedToken& token) {
      const bool is_known =
          found_in(spec_.added, token.content) != spec_.added.end() || found_in(listed, token.content) != listed.end();
      const auto is_it = [&](const auto& other) { return is_same(other, token); };
      if (!is_known && std::none_of(all.begin(), all.end(), is_it)) all.push_back(token);
    };
    for (const auto& one : tokens_.named) {
      refuse_new_end(one, listed);
      add_new(one.token);
    }
    for (const auto& token : tokens_.extra) add_new(token);
    for (auto& token : all) {
      const auto is_it = [&](const auto& one) { return one.token.content == token.content; };
      token.special = token.special || std::any_of(tokens_.named.begin(), tokens_.named.end(), is_it);
    }
    return all;
  }

  // An id that no file has would be one that no weights were trained for.
  void refuse_new_end(const FolderTokens::Named& one, const std::vector<AddedToken>& listed) {
    if (one.name != "eos_token" && one.name != "pad_token") return;
    if (ids_.contains(one.token.content) || found_in(listed, one.token.content) != listed.end()) return;
    faults_.add(one.file, cat(one.name, " is \"", one.token.content, "\", which the tokenizer does not have"),
                "name a token of tokenizer.json, or add this one to it: save the tokenizer again with transformers");
  }

  void add(AddedToken& token) {
    if (token.content.empty()) return;
    if (token.normalized && normalized(spec_.normalizer, token.content).empty()) {
      faults_.add(tokens_.listed_file, cat("\"", token.content, "\" is a token that the normalizer removes"),
                  "set its normalized to false, or take it out");
      return;
    }
    if (const auto known = found_in(spec_.added, token.content); known != spec_.added.end()) {
      token.id = known->id;
      token.special = token.special || known->special;
      *known = token;
      return;
    }
    const auto id = ids_.emplace(token.content, std::max(last_ + 1, size_)).first->second;
    token.id = static_cast<std::int32_t>(id);
    last_ = std::max(last_, id);
    spec_.added.push_back(token);
  }

  void judge_id(const AddedToken& token, const std::string& name) {
    const auto found = ids_.find(token.content);
    if (found == ids_.end() || found->second == token.id) return;
    faults_.add(
        tokens_.listed_file,
        cat(name, " gives \"", token.content, "\" the id ", token.id, ", tokenizer.json makes it ", found->second),
        "save the tokenizer again with transformers, so that both files say the same");
  }

  TokenizerSpec& spec_;
  const FolderTokens& tokens_;
  std::int64_t size_;
  std::int64_t last_ = -1;
  TokenIds ids_;
  Diagnostics faults_;
};

}  // namespace

TokenIds add_tokens(TokenizerSpec& spec, const FolderTokens& tokens) { return Adder(spec, tokens).add(); }

}  // namespace hf
