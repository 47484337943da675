#include "mixture.h"

#include <capstan/base/counted.h>
#include <capstan/base/text.h>

#include <algorithm>
#include <iterator>
#include <utility>

#include "sources.h"

namespace mixture {

using namespace capstan;

namespace {

std::string text_of(const data::SampleForm& form) {
  auto text = counted(form.sequences, "sequence");
  if (!form.meaning.empty()) text += cat(" (", form.meaning, ")");
  std::vector<std::string> fields;
  for (const auto& field : form.fields) fields.push_back(field.name);
  if (!fields.empty()) text += cat(" with ", join(fields));
  return text;
}

bool is_same(const data::SampleForm& a, const data::SampleForm& b) {
  return a.sequences == b.sequences && a.meaning == b.meaning && a.fields == b.fields;
}

}  // namespace

void MixtureOptions::describe(config::OptionTable<MixtureOptions>& t) {
  t.add("weights", &MixtureOptions::weights)
      .choices({"samples", "tokens"})
      .doc(
          "what a source's weight is a share of: the samples that are drawn, or their tokens, by the mean length of "
          "some "
          "of its samples");
  t.add("stop", &MixtureOptions::stop)
      .choices({"first", "all", "steps"})
      .doc(
          "when an epoch is over. first: when a source is used up; all: when each sample was seen at least once; "
          "steps: "
          "when the run is, which then needs train.max_steps");
}

void Mixture::check(Diagnostics& diagnostics) const {
  const auto form = parts_.front().data->form();
  for (const auto& part : parts_) {
    part.data->check(diagnostics);
    if (const auto own = part.data->form(); !is_same(form, own)) {
      diagnostics.add(part.where,
                      cat("samples of the source '", part.name, "' have ", text_of(own), ", those of '",
                          parts_.front().name, "' have ", text_of(form)),
                      "mix sources whose samples are of one form");
    }
  }
  auto names = evaluation_sets();
  std::sort(names.begin(), names.end());
  if (const auto twice = std::adjacent_find(names.begin(), names.end()); twice != names.end()) {
    diagnostics.add(parts_.front().where, cat("two evaluations would be named '", *twice, "'"),
                    "give a source, or a file of its eval_files, another name");
  }
}

std::int64_t Mixture::max_length() const {
  std::int64_t longest = 0;
  for (const auto& part : parts_) {
    if (part.data->max_length() == 0) return 0;
    longest = std::max(longest, part.data->max_length());
  }
  return longest;
}

data::SampleForm Mixture::form() const {
  auto form = parts_.front().data->form();
  form.fields.push_back({data::source_field});
  for (const auto& part : parts_) form.sources.push_back(part.name);
  return form;
}

std::vector<std::pair<std::string, Mixture::Set>> Mixture::sets() const {
  std::vector<std::pair<std::string, Set>> all;
  for (std::size_t i = 0; i < parts_.size(); ++i) {
    const auto& [name, weight, where, data] = parts_[i];
    if (data->evaluates()) all.push_back({name, {i, {}}});
    for (const auto& set : data->evaluation_sets()) all.push_back({cat(name, "_", set), {i, set}});
  }
  return all;
}

std::vector<std::string> Mixture::evaluation_sets() const {
  std::vector<std::string> names;
  for (const auto& [name, set] : sets()) names.push_back(name);
  return names;
}

bool Mixture::uses_tokenizer() const {
  return std::any_of(parts_.begin(), parts_.end(), [](const auto& part) { return part.data->uses_tokenizer(); });
}

bool Mixture::evaluates() const {
  return std::any_of(parts_.begin(), parts_.end(), [](const auto& part) { return part.data->evaluates(); });
}

// A length of its own limits a source, unless samples are asked for that nothing has cut.
std::shared_ptr<data::DataSource> Mixture::open_part(std::size_t part, data::SplitRequest request) const {
  const auto longest = max_length(), own = parts_[part].data->max_length();
  if (own > 0 && (longest == 0 || request.max_length <= longest))
    request.max_length = std::min(own, request.max_length);
  auto source = parts_[part].data->open(request);
  if (!source || source->size() > 0) return source;
  throw Error(cat("the source '", parts_[part].name, "' has no samples"), "name a file with at least one",
              parts_[part].where);
}

std::shared_ptr<data::DataSource> Mixture::open(const data::SplitRequest& request) const {
  std::vector<OpenedPart> opened;
  const auto all = sets();
  const auto set = std::find_if(all.begin(), all.end(), [&](const auto& one) { return one.first == request.set; });
  for (std::size_t i = 0; i < parts_.size(); ++i) {
    auto own = request;
    if (!request.set.empty()) {
      if (set == all.end() || set->second.part != i) continue;
      own.set = set->second.name;
    }
    if (auto source = open_part(i, own)) opened.push_back({i, parts_[i], std::move(source)});
  }
  if (opened.empty()) return nullptr;
  if (request.split == data::Split::train && opened.size() < parts_.size()) {
    std::size_t without = 0;
    while (without < opened.size() && opened[without].index == without) ++without;
    throw Error(cat("the source '", parts_[without].name, "' names no training data, and others do"), "name its file",
                parts_[without].where);
  }
  return std::make_shared<Sources>(std::move(opened), options_);
}

}  // namespace mixture

CAPSTAN_DATA("mixture", "1.0", "samples of several sources, [[data.sources]], drawn by their weights", mixture::Mixture,
             mixture::MixtureOptions)
