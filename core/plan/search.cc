#include "plan/search.h"

#include <capstan/base/text.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <utility>

namespace capstan::plan {
namespace {

using By = plugin::Saving::By;

// Is there such a table, and is it not switched off?
std::map<std::string, bool> strategies_in(const config::Document& document) {
  std::map<std::string, bool> enabled;
  for (const auto& section : document.children("strategy")) {
    const auto* entry = section.find("enabled");
    const auto* flag = entry ? std::get_if<bool>(&entry->value) : nullptr;
    enabled[section.path.substr(section.path.find('.') + 1)] = !flag || *flag;
  }
  return enabled;
}

std::vector<Choice> choices_of_one(const plugin::Registration& plugin, bool has_table, bool is_used) {
  const auto table = cat("strategy.", plugin.name, ".");
  std::vector<Choice> choices;
  choices.push_back({is_used ? plugin.name + " as configured" : "", {}, {}});
  if (is_used) choices.push_back({"", {table + "enabled=false"}, {}});
  for (const auto& saving : plugin.savings) {
    Choice choice{cat(plugin.name, " ", join(saving.options, " ")), {}, saving.by};
    if (has_table && !is_used) choice.overrides.push_back(table + "enabled=true");
    for (const auto& option : saving.options) choice.overrides.push_back(table + option);
    choices.push_back(std::move(choice));
  }
  return choices;
}

std::vector<std::int64_t> divisors(std::int64_t number) {
  std::vector<std::int64_t> all;
  for (std::int64_t d = 1; d <= number; ++d) {
    if (number % d == 0) all.push_back(d);
  }
  return all;
}

// The largest micro-batch that fits, found by halving from the top; the smallest where none does.
std::optional<Tried> largest(const LayoutChoice& layout, std::int64_t global_batch, std::int64_t ranks,
                             const Questions& ask) {
  const auto sizes = divisors(global_batch / ranks);
  std::optional<Tried> best;
  std::size_t begin = 0, end = sizes.size();
  for (auto at = end - 1; begin < end; at = begin + (end - begin) / 2) {
    auto tried = ask.predict(layout, {sizes[at], global_batch / ranks / sizes[at], global_batch, ranks});
    if (!tried) return best;
    const bool fits = tried->fits;
    if (fits || at == 0) best = std::move(tried);
    (fits ? begin : end) = fits ? at + 1 : at;
  }
  return best;
}

// Nearer than any prediction is.
bool is_equal(const Tried& a, const Tried& b) {
  const auto near = [](double x, double y) { return std::abs(x - y) <= 1e-3 * std::max(x, y); };
  return a.batch.micro_batch == b.batch.micro_batch && near(a.time.total(), b.time.total()) &&
         near(static_cast<double>(a.peak), static_cast<double>(b.peak));
}

bool is_better(const Tried& a, const Tried& b) {
  if (a.fits != b.fits) return a.fits;
  if (!a.fits || a.time.total() == b.time.total()) return a.peak < b.peak;
  if (a.time.total() == 0 || b.time.total() == 0) return a.time.total() > 0;  // what has no time comes last
  return a.time.total() < b.time.total();
}

// Tries the layouts of one kind.
class Search {
 public:
  Search(const std::vector<LayoutChoice>& layouts, std::int64_t global_batch, const Questions& ask)
      : layouts_(layouts), global_batch_(global_batch), ask_(ask) {}

  void run(bool recomputes, bool offloads) {
    for (const auto& layout : layouts_) {
      if (layout.recomputes != recomputes || layout.offloads != offloads) continue;
      const auto ranks = ask_.data_ranks(layout);
      if (!ranks || (recomputes && !is_tight(layout, *ranks))) continue;
      if (auto tried = largest(layout, global_batch_, *ranks, ask_)) add(std::move(*tried));
    }
  }
  bool has_fit() const {
    return std::any_of(found_.begin(), found_.end(), [](const auto& tried) { return tried.fits; });
  }
  std::vector<Tried> take() {
    std::stable_sort(found_.begin(), found_.end(), is_better);
    return std::move(found_);
  }

 private:
  // Recomputing helps only where a layout that keeps activations takes less than all of a rank's samples at once.
  bool is_tight(const LayoutChoice& layout, std::int64_t ranks) const {
    const auto found = std::find_if(found_.begin(), found_.end(), [&](const auto& tried) {
      return !tried.layout.recomputes && tried.layout.offloads == layout.offloads && tried.fits &&
             tried.batch.data_parallel_size == ranks && tried.batch.accumulation == 1 &&
             std::includes(layout.overrides.begin(), layout.overrides.end(), tried.layout.overrides.begin(),
                           tried.layout.overrides.end());
    });
    return found == found_.end();
  }
  void add(Tried tried) {
    if (std::any_of(found_.begin(), found_.end(), [&](const auto& other) { return is_equal(tried, other); })) return;
    found_.push_back(std::move(tried));
  }

  const std::vector<LayoutChoice>& layouts_;
  std::int64_t global_batch_;
  const Questions& ask_;
  std::vector<Tried> found_;
};

}  // namespace

std::vector<std::vector<Choice>> choices_of(plugin::Host& host, const config::Document& document) {
  const auto in_file = strategies_in(document);
  std::vector<std::vector<Choice>> choices;
  for (const auto& found : host.discover()) {
    if (found.kind != "strategy" || !found.registration || found.registration->savings.empty()) continue;
    const auto at = in_file.find(found.registration->name);
    const bool has_table = at != in_file.end();
    choices.push_back(choices_of_one(*found.registration, has_table, has_table && at->second));
  }
  return choices;
}

std::vector<LayoutChoice> layouts_of(const std::vector<std::vector<Choice>>& choices) {
  std::vector<LayoutChoice> layouts{{}};
  for (const auto& of_one : choices) {
    std::vector<LayoutChoice> longer;
    for (const auto& layout : layouts) {
      for (const auto& choice : of_one) {
        auto next = layout;
        if (!choice.words.empty()) next.words += (next.words.empty() ? "" : ", ") + choice.words;
        next.overrides.insert(next.overrides.end(), choice.overrides.begin(), choice.overrides.end());
        next.recomputes = next.recomputes || choice.by == By::recomputing;
        next.offloads = next.offloads || choice.by == By::offloading;
        longer.push_back(std::move(next));
      }
    }
    layouts = std::move(longer);
  }
  for (auto& layout : layouts) std::sort(layout.overrides.begin(), layout.overrides.end());
  return layouts;
}

std::vector<Tried> search(const std::vector<LayoutChoice>& layouts, std::int64_t global_batch, const Questions& ask) {
  Search search(layouts, global_batch, ask);
  search.run(false, false);
  search.run(true, false);
  if (!search.has_fit()) {
    search.run(false, true);
    search.run(true, true);
  }
  return search.take();
}

std::vector<std::string> batch_overrides(const data::BatchShape& batch) {
  return {cat("train.global_batch=", batch.global_batch), cat("train.micro_batch=", batch.micro_batch),
          cat("train.accumulation=", batch.accumulation)};
}

}  // namespace capstan::plan
