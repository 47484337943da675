#include "search.h"

#include <capstan/base/text.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <utility>

namespace planning {
namespace {

using namespace capstan;

using By = plugin::Saving::By;

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
    const BatchSizes batch{sizes[at], global_batch / ranks / sizes[at], global_batch, ranks};
    auto estimate = ask.predict(layout, batch);
    if (!estimate) return best;
    const bool fits = estimate->fits;
    if (fits || at == 0) best = Tried{layout, batch, std::move(*estimate)};
    (fits ? begin : end) = fits ? at + 1 : at;
  }
  return best;
}

// Nearer than any prediction is.
bool is_equal(const Tried& a, const Tried& b) {
  const auto near = [](double x, double y) { return std::abs(x - y) <= 1e-3 * std::max(x, y); };
  return a.batch.micro_batch == b.batch.micro_batch && near(a.estimate.seconds, b.estimate.seconds) &&
         near(static_cast<double>(a.estimate.gpu_bytes), static_cast<double>(b.estimate.gpu_bytes));
}

bool is_better(const Tried& one, const Tried& other) {
  const auto &a = one.estimate, &b = other.estimate;
  if (a.fits != b.fits) return a.fits;
  if (!a.fits || a.seconds == b.seconds) return a.gpu_bytes < b.gpu_bytes;
  if (a.seconds == 0 || b.seconds == 0) return a.seconds > 0;  // what has no time comes last
  return a.seconds < b.seconds;
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
    return std::any_of(found_.begin(), found_.end(), [](const auto& tried) { return tried.estimate.fits; });
  }
  std::vector<Tried> take() {
    std::stable_sort(found_.begin(), found_.end(), is_better);
    return std::move(found_);
  }

 private:
  // Recomputing helps only where a layout that keeps activations takes less than all of a rank's samples at once.
  bool is_tight(const LayoutChoice& layout, std::int64_t ranks) const {
    const auto found = std::find_if(found_.begin(), found_.end(), [&](const auto& tried) {
      return !tried.layout.recomputes && tried.layout.offloads == layout.offloads && tried.estimate.fits &&
             tried.batch.data_ranks == ranks && tried.batch.accumulation == 1 &&
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

std::vector<std::vector<Choice>> choices_of(plugin::Host& host, const std::map<std::string, bool>& in_file) {
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

std::vector<std::string> overrides_of(const LayoutChoice& layout, const BatchSizes& batch) {
  auto all = layout.overrides;
  all.push_back(cat("train.global_batch=", batch.global_batch));
  all.push_back(cat("train.micro_batch=", batch.micro_batch));
  all.push_back(cat("train.accumulation=", batch.accumulation));
  return all;
}

}  // namespace planning
