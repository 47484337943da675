#include "names.h"

#include <capstan/base/text.h>

#include <algorithm>
#include <set>

namespace lora {

using namespace capstan;

namespace {

bool has(const std::vector<std::string>& list, const std::string& name) {
  return std::find(list.begin(), list.end(), name) != list.end();
}

// Hugging Face's names of an expert's three matrices.
bool is_of_expert(const std::string& name) { return name == "w1" || name == "w2" || name == "w3"; }

std::string not_there(const std::vector<std::string>& known) { return "but the model has: " + join(known); }

}  // namespace

std::string leaf(const std::string& path) { return path.substr(path.rfind('.') + 1); }

bool names_module(const std::string& name, const std::string& module) {
  return !module.empty() && (module == name || module.ends_with("." + name));
}

Names::Names(const std::vector<std::string>& names) {
  for (const auto& name : names) used_[name] = false;
}

bool Names::take(const std::string& name) {
  const auto found = used_.find(name);
  if (found == used_.end()) return false;
  return found->second = true;
}

bool Names::take_module(const std::string& module) {
  bool taken = false;
  for (auto& [name, used] : used_) {
    if (!names_module(name, module)) continue;
    used = true;
    taken = true;
  }
  return taken;
}

std::vector<std::string> Names::unused() const {
  std::vector<std::string> list;
  for (const auto& [name, used] : used_) {
    if (!used) list.push_back(name);
  }
  return list;
}

Known::Known(const Units& units) {
  const auto learn = [](std::vector<std::string>& list, const std::string& name) {
    if (!name.empty() && !has(list, name)) list.push_back(name);
  };
  const auto learn_both = [&](const std::string& name) {
    learn(targets, name);
    learn(whole, name);
  };
  targets.emplace_back("all-linear");
  std::map<const nn::Weight*, std::string> embeddings;
  for (const auto& unit : units) {
    unit->each<nn::Linear>([&](const nn::Linear& linear) {
      learn_both(linear.name());
      for (const auto& record : linear.weight()->records()) learn_both(leaf(record.module));
    });
    unit->each<nn::Experts>([&](const nn::Experts&) {
      has_experts = true;
      for (const char* role : {"linear_fc1", "linear_fc2", "experts"}) learn_both(role);
    });
    for (const auto* record : nn::parameters(*unit)) learn(whole, leaf(record->module));
    unit->each<nn::Embedding>([&](const nn::Embedding& embedding) {
      embeddings[embedding.weight().get()] = leaf(embedding.weight()->records().front().module);
    });
    unit->each<nn::VocabularyHead>([&](const nn::VocabularyHead& head) {
      const auto tied = embeddings.find(head.weight().get());
      if (tied != embeddings.end()) tied_heads[head.name()] = tied->second;
    });
  }
}

Refusal refuse_target(const std::string& name, const Known& known, const std::string& whole_option) {
  const auto end = leaf(name);
  const auto tied = known.tied_heads.find(end);
  if (tied != known.tied_heads.end() || (has(known.whole, end) && !has(known.targets, end))) {
    const auto module = tied == known.tied_heads.end() ? end : tied->second;
    return {"which gets no adapter: embeddings, norms and the head, which are no linear layers of a block, get none",
            cat("train it whole: ", whole_option, " = [\"", module, "\"]",
                tied == known.tied_heads.end() ? "" : ", since this model's head is its embedding")};
  }
  if (is_of_expert(end) && known.has_experts) {
    return {"but an expert's matrices are not named one by one",
            "use \"experts\": each expert gets adapters of its own, w1 and w3 with one A"};
  }
  return {not_there(known.targets), suggestion(name, known.targets)};
}

Refusal refuse_whole(const std::string& name, const Known& known) {
  const auto tied = known.tied_heads.find(leaf(name));
  if (tied != known.tied_heads.end())
    return {"but this model's head is its embedding", cat("name \"", tied->second, "\", which trains both")};
  if (is_of_expert(leaf(name)) && known.has_experts)
    return {"but an expert's matrices are not named one by one", "use \"experts\", which trains them all"};
  return {not_there(known.whole), suggestion(name, known.whole)};
}

}  // namespace lora
