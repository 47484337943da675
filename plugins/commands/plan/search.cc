#include "search.h"

#include <capstan/base/text.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <set>
#include <utility>

namespace planning {
namespace {

using namespace capstan;

using By = plugin::Saving::By;

std::vector<Choice> choices_of_one(const plugin::Registration& plugin, bool has_table, bool is_used) {
  // Together with everything else they are too many to be predicted in seconds.
  static const std::set<std::string> dividing{"context_parallel", "pipeline_parallel"};
  const bool divides = dividing.contains(plugin.name);
  const auto table = cat("strategy.", plugin.name, ".");
  std::vector<Choice> choices;
  choices.push_back({is_used ? plugin.name + " as configured" : "", {}, {}});
  if (is_used) choices.push_back({"", {table + "enabled=false"}, {}});
  for (const auto& saving : plugin.savings) {
    Choice choice{
        cat(plugin.name, " ", join(saving.options, " ")), {}, saving.by, divides, divides && saving.options.size() > 1};
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

bool is_better(const Tried& one, const Tried& other) {
  const auto &a = one.estimate, &b = other.estimate;
  if (a.fits != b.fits) return a.fits;
  if (!a.fits || a.seconds == b.seconds) return a.gpu_bytes < b.gpu_bytes;
  if (a.seconds == 0 || b.seconds == 0) return a.seconds > 0;  // what has no time comes last
  return a.seconds < b.seconds;
}

// The micro-batch with the shortest step, from the smallest on: more micro-batches make a pipeline wait less, and
// larger ones compute faster.
std::optional<Tried> fastest(const LayoutChoice& layout, std::int64_t global_batch, std::int64_t ranks,
                             const Questions& ask) {
  std::optional<Tried> best;
  for (const auto size : divisors(global_batch / ranks)) {
    const BatchSizes batch{size, global_batch / ranks / size, global_batch, ranks};
    auto estimate = ask.predict(layout, batch);
    if (!estimate) break;
    Tried tried{layout, batch, std::move(*estimate)};
    if (best && !is_better(tried, *best)) break;
    best = std::move(tried);
  }
  return best;
}

// Nearer than any prediction is.
bool is_equal(const Tried& a, const Tried& b) {
  const auto near = [](double x, double y) { return std::abs(x - y) <= 1e-3 * std::max(x, y); };
  return a.batch.micro_batch == b.batch.micro_batch && near(a.estimate.seconds, b.estimate.seconds) &&
         near(static_cast<double>(a.estimate.gpu_bytes), static_cast<double>(b.estimate.gpu_bytes));
}

// Tries layouts, each once.
class Search {
 public:
  Search(const std::vector<LayoutChoice>& layouts, std::int64_t global_batch, const Questions& ask)
      : layouts_(layouts), global_batch_(global_batch), ask_(ask) {
    for (std::size_t i = 0; i < layouts.size(); ++i) by_choices_[layouts[i].choices] = i;
  }

  // Those of one kind that divide nothing.
  void run(bool recomputes, bool offloads) {
    for (std::size_t i = 0; i < layouts_.size(); ++i) {
      const auto& layout = layouts_[i];
      if (layout.divisions == 0 && layout.recomputes == recomputes && layout.offloads == offloads) attempt(i);
    }
  }

  // Those that divide something, without offloading.
  void divide() {
    const auto bases = bases_of_divisions();
    for (std::size_t i = 0; i < layouts_.size(); ++i) {
      const auto& layout = layouts_[i];
      if (layout.divisions == 1 && !layout.varies && bases.contains(layout.undivided)) attempt(i);
    }
    for (auto best = best_divided(); best;) {
      for (const auto neighbour : neighbours(*best)) attempt(neighbour);
      const auto better = best_divided();
      if (better == best) break;
      best = better;
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
  void attempt(std::size_t index) {
    if (!attempted_.insert(index).second) return;
    const auto& layout = layouts_[index];
    const auto ranks = ask_.data_ranks(layout);
    if (!ranks || (layout.recomputes && is_loose(layout, *ranks))) return;
    auto tried = layout.divisions > 0 ? fastest(layout, global_batch_, *ranks, ask_)
                                      : largest(layout, global_batch_, *ranks, ask_);
    if (tried) add(std::move(*tried));
  }

  // Recomputing helps only where a layout that keeps activations takes less than all of a rank's samples at once.
  bool is_loose(const LayoutChoice& layout, std::int64_t ranks) const {
    return std::any_of(found_.begin(), found_.end(), [&](const auto& tried) {
      return !tried.layout.recomputes && tried.layout.offloads == layout.offloads && tried.estimate.fits &&
             tried.batch.data_ranks == ranks && tried.batch.accumulation == 1 &&
             std::includes(layout.overrides.begin(), layout.overrides.end(), tried.layout.overrides.begin(),
                           tried.layout.overrides.end());
    });
  }

  // Other plugins' choices with which divisions are tried: the first of each, and those of the best layouts.
  std::set<std::vector<std::size_t>> bases_of_divisions() const {
    constexpr std::size_t most = 2;
    auto best = found_;
    std::stable_sort(best.begin(), best.end(), is_better);
    best.resize(std::min(best.size(), most));
    std::set<std::vector<std::size_t>> bases{layouts_.front().choices};
    for (const auto& tried : best) bases.insert(tried.layout.choices);
    return bases;
  }

  // None where a layout that divides nothing is much faster.
  std::optional<std::size_t> best_divided() const {
    const Tried* best = nullptr;
    for (const auto& tried : found_) {
      if (tried.layout.divisions > 0 && (!best || is_better(tried, *best))) best = &tried;
    }
    const auto is_far = [&](const Tried& tried) {
      return best && tried.estimate.fits && tried.estimate.seconds > 0 &&
             1.1 * tried.estimate.seconds < best->estimate.seconds;
    };
    if (std::any_of(found_.begin(), found_.end(), is_far)) return {};
    return best ? std::optional(by_choices_.at(best->layout.choices)) : std::nullopt;
  }

  // Layouts that differ in one plugin's choice.
  std::vector<std::size_t> neighbours(std::size_t index) const {
    std::vector<std::size_t> list;
    const auto& from = layouts_[index].choices;
    for (std::size_t plugin = 0; plugin < from.size(); ++plugin) {
      auto other = from;
      other[plugin] = 0;
      for (auto found = by_choices_.find(other); found != by_choices_.end(); found = by_choices_.find(other)) {
        if (!layouts_[found->second].offloads) list.push_back(found->second);
        ++other[plugin];
      }
    }
    return list;
  }

  void add(Tried tried) {
    if (std::any_of(found_.begin(), found_.end(), [&](const auto& other) { return is_equal(tried, other); })) return;
    found_.push_back(std::move(tried));
  }

  const std::vector<LayoutChoice>& layouts_;
  std::int64_t global_batch_;
  const Questions& ask_;
  std::map<std::vector<std::size_t>, std::size_t> by_choices_;
  std::set<std::size_t> attempted_;
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
      for (std::size_t i = 0; i < of_one.size(); ++i) {
        const auto& choice = of_one[i];
        auto next = layout;
        next.choices.push_back(i);
        next.undivided.push_back(choice.divides ? 0 : i);
        next.divisions += choice.divides ? 1 : 0;
        next.varies = next.varies || choice.varies;
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
  search.divide();
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
