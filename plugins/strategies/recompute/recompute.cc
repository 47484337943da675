// Activation recomputation (Chen et al. 2016, "Training Deep Nets with Sublinear Memory Cost"): a unit, or named
// regions of it, keep their inputs only and run again in backward. Inputs may wait in host memory, and feed-forwards
// run by tiles of the sequence (Bekman et al. 2025, "Arctic Long Sequence Training").
#include "recompute.h"

#include <capstan/base/counted.h>
#include <capstan/base/text.h>
#include <capstan/strategy_parts/claims.h>

#include <algorithm>
#include <cmath>

#include "attention_results.h"
#include "tiles.h"

namespace recompute {

using namespace capstan;

namespace {

template <class List, class Item>
bool contains(const List& list, const Item& item) {
  return std::find(list.begin(), list.end(), item) != list.end();
}

std::vector<std::string> region_names(const std::vector<std::unique_ptr<nn::Unit>>& units) {
  std::vector<std::string> names;
  for (const auto& unit : units) {
    unit->each<nn::Region>([&](const nn::Region& region) {
      if (!contains(names, region.name())) names.push_back(region.name());
    });
  }
  return names;
}

}  // namespace

std::vector<plugin::Saving> RecomputeOptions::savings() {
  using By = plugin::Saving::By;
  return {{By::recomputing, "recompute each feed-forward", {"every=1", "regions=[\"mlp\"]"}},
          {By::recomputing, "recompute each unit but its attention", {"every=1", "regions=[]", "keep_attention=true"}},
          {By::recomputing, "recompute each unit", {"every=1", "regions=[]"}},
          {By::offloading,
           "recompute each unit, by tiles, inputs in host memory",
           {"every=1", "regions=[]", "tile_tokens=8192", "offload=1.0"}}};
}

void RecomputeOptions::describe(config::OptionTable<RecomputeOptions>& t) {
  t.add("every", &RecomputeOptions::every)
      .min(1)
      .doc(
          "recompute every Nth unit; 1: each. Never the model's last one: its backward begins right after its forward, "
          "so nothing would be saved");
  t.add("regions", &RecomputeOptions::regions)
      .doc("only these parts of the units, such as [\"attention\"]; empty: whole units");
  t.add("keep_attention", &RecomputeOptions::keep_attention)
      .doc(
          "whole units keep what their attention computed, too: only what goes into it is computed again. The longer "
          "rows are, the more time that saves; it takes as much memory as the inputs where heads have as many columns");
  t.add("offload", &RecomputeOptions::offload)
      .min(0)
      .max(1)
      .doc(
          "the share of the kept inputs, and of what attention computed, that waits in host memory between forward and "
          "backward; copies run while the GPU computes. 1: all, 0: none");
  t.add("tile_tokens", &RecomputeOptions::tile_tokens)
      .min(0)
      .doc(
          "all feed-forwards, named in regions or not, run and are recomputed by tiles of at most that many of the "
          "rank's "
          "tokens, in evaluations too: their inner activations never exist of the whole sequence. 0: not by tiles");
  t.add("auto", &RecomputeOptions::automatic)
      .doc(
          "take the least that fits the run's smallest GPU by prediction, with 5 % to spare: nothing, each "
          "feed-forward, "
          "each unit but its attention, each unit, or that by tiles and with inputs in host memory; it sets every, "
          "regions and keep_attention, and where it needs them offload and tile_tokens");
}

void Recompute::claim(strategy::Claims& claims) const {
  claims.exclusive("unit recompute");
  if (options_->keep_attention) claims.exclusive(strategy::attention_kernels);
}

void Recompute::check(const strategy::Facts& facts, Diagnostics& diagnostics) const {
  check_attention(facts, diagnostics);
  if (!options_->automatic || !facts.trains) return;
  const auto where = options_.where(&RecomputeOptions::automatic), option = options_.name(&RecomputeOptions::automatic);
  diagnostics.add(where,
                  facts.device == "cuda" ? cat(option,
                                               ": it is not known into which GPU the run must fit, or nothing "
                                               "could be predicted for one")
                                         : cat(option, " on CPUs: memory of a micro-step is predicted only for GPUs"),
                  facts.device == "cuda" ? "tell check of the GPU with --gpu, such as --gpu h100-80g, or set every"
                                         : "set every, or remove the table");
}

void Recompute::check_attention(const strategy::Facts& facts, Diagnostics& diagnostics) const {
  if (!options_->keep_attention) return;
  const auto where = options_.where(&RecomputeOptions::keep_attention);
  const auto option = options_.name(&RecomputeOptions::keep_attention);
  if (!options_->regions.empty()) {
    diagnostics.add(where, cat(option, " is for units that are recomputed as a whole, but regions are named"),
                    cat("remove ", option, ", or ", options_.name(&RecomputeOptions::regions)));
  }
  if (facts.trains && facts.model.attention_dropout) {
    diagnostics.add(
        where, cat(option, " is set, but the model has dropout on attention's probabilities, which are computed again"),
        cat("set the model's attention_dropout = 0, or remove ", option));
  }
}

void Recompute::structure(std::vector<std::unique_ptr<nn::Unit>>& units) {
  Diagnostics diagnostics;
  check_regions(region_names(units), diagnostics);
  check_tiles(units, diagnostics);
  chosen_.clear();
  for (std::size_t i = 0; i + 1 < units.size(); ++i) {
    if ((i + 1) % static_cast<std::size_t>(options_->every) == 0) chosen_.push_back(units[i].get());
  }
  if (chosen_.empty()) {
    diagnostics.add(options_.where(&RecomputeOptions::every),
                    cat(options_.name(&RecomputeOptions::every), " ", options_->every, " leaves nothing to recompute: ",
                        "without the last one the model has ", units.size() - 1, " units"),
                    cat("use at most ", units.size() - 1, ", or remove this strategy"));
  }
  const auto has_attention = [](const nn::Unit* unit) { return !unit->all<nn::AttentionCore>().empty(); };
  if (options_->keep_attention && std::none_of(chosen_.begin(), chosen_.end(), has_attention)) {
    diagnostics.add(options_.where(&RecomputeOptions::keep_attention),
                    cat(options_.name(&RecomputeOptions::keep_attention),
                        " is set, but no unit that is recomputed has an "
                        "nn::Attention"),
                    "remove it");
  }
  diagnostics.throw_if_any();
  note_units_without_regions();
  choose_offloaded(units);
}

void Recompute::check_regions(const std::vector<std::string>& known, Diagnostics& diagnostics) const {
  const auto where = options_.where(&RecomputeOptions::regions);
  const auto option = options_.name(&RecomputeOptions::regions);
  if (known.empty() && !options_->regions.empty()) {
    diagnostics.add(where, cat(option, " is set, but this model names no regions"),
                    "remove it: whole units are then recomputed");
    return;
  }
  for (const auto& name : options_->regions) {
    if (contains(known, name)) continue;
    diagnostics.add(where, cat(option, " names '", name, "', but this model's regions are ", join(known)),
                    suggestion(name, known));
  }
}

// Such as attention in blocks that share keys and values. The embedding, without regions at all, is meant by none.
void Recompute::note_units_without_regions() {
  for (const auto& name : options_->regions) {
    const auto lacks = [&](const nn::Unit* unit) {
      const auto regions = unit->all<nn::Region>();
      return !regions.empty() &&
             std::none_of(regions.begin(), regions.end(), [&](const auto* region) { return region->name() == name; });
    };
    const auto count = std::count_if(chosen_.begin(), chosen_.end(), lacks);
    if (count == 0) continue;
    notes_.push_back(cat("note: ", options_.name(&RecomputeOptions::regions), ": ", counted(count, "unit"),
                         " without a region '", name, "' ", plural(count, "keeps", "keep"), " what it computes"));
  }
}

namespace {

bool has_experts(const nn::Unit& unit) { return !unit.all<nn::Mixture>().empty(); }

}  // namespace

void Recompute::check_tiles(const std::vector<std::unique_ptr<nn::Unit>>& units, Diagnostics& diagnostics) {
  notes_.clear();
  if (options_->tile_tokens == 0) return;
  std::size_t tiled = 0, experts = 0;
  for (const auto& unit : units) {
    if (has_experts(*unit)) ++experts;
    unit->each<nn::Region>([&](const nn::Region& region) { tiled += is_tiled(*unit, region) ? 1 : 0; });
  }
  const auto option = options_.name(&RecomputeOptions::tile_tokens);
  if (tiled == 0) {
    diagnostics.add(options_.where(&RecomputeOptions::tile_tokens),
                    cat(option, " is set, but no unit of this model has a dense feed-forward in a region \"mlp\""),
                    "remove it");
  } else if (experts > 0) {
    notes_.push_back(cat("note: ", option, " acts on ", counted(tiled, "dense feed-forward"), "; ",
                         counted(experts, "unit"), " with experts compute all tokens at once"));
  }
}

// What experts decide, they decide of all tokens at once.
bool Recompute::is_tiled(const nn::Unit& unit, const nn::Region& region) const {
  return options_->tile_tokens > 0 && region.name() == "mlp" && !has_experts(unit) && !unit.all<nn::Mlp>().empty();
}

bool Recompute::is_named(const nn::Region& region) const { return contains(options_->regions, region.name()); }

template <class Visit>
void Recompute::each_kept(nn::Unit& unit, const Visit& visit) const {
  const bool is_chosen = contains(chosen_, &unit);
  const bool is_whole = is_chosen && options_->regions.empty();
  if (is_whole) visit(nullptr);
  unit.each<nn::Region>([&](nn::Region& region) {
    // Inside a unit that is recomputed a tile's input does not wait: its backward follows.
    if ((is_chosen && is_named(region)) || (!is_whole && is_tiled(unit, region))) visit(&region);
  });
}

// As evenly along the model as the share allows, so that copies have the time of as much computation each. No states
// come into the model's first unit.
void Recompute::choose_offloaded(const std::vector<std::unique_ptr<nn::Unit>>& units) {
  offloaded_.clear();
  std::size_t count = 0;
  for (std::size_t i = 1; i < units.size(); ++i) {
    each_kept(*units[i], [&](const nn::Region* region) {
      const auto before = std::floor(options_->offload * static_cast<double>(count) + 1e-9);
      if (std::floor(options_->offload * static_cast<double>(++count) + 1e-9) == before) return;
      offloaded_.push_back(region ? static_cast<const nn::Layer*>(region) : units[i].get());
    });
  }
}

strategy::KeepInput Recompute::keep_of(const nn::Layer& kept) const {
  return contains(offloaded_, &kept) ? copies_.keep() : strategy::KeepInput();
}

void Recompute::place(nn::Unit& unit, const strategy::Placement& placement) {
  if (contains(offloaded_, &unit)) keepers_.push_back(std::make_unique<strategy::InputKeeper>(unit, copies_.keep()));
  if (options_->keep_attention && contains(chosen_, &unit)) {
    const auto keep = contains(offloaded_, &unit) ? results_.keep() : strategy::KeepInput();
    unit.each<nn::AttentionCore>(
        [&](nn::AttentionCore& attention) { attention.rows().wrap("recompute", KeepAttention(attention, keep)); });
  }
  const auto& mesh = placement.mesh;
  const Sharing sharing{mesh.size(layout::Axis::tp), mesh.coordinate(placement.rank, layout::Axis::tp)};
  unit.each<nn::Region>([&](nn::Region& region) {
    if (is_tiled(unit, region)) {
      region.around.fill("recompute", Tiles(unit, options_->tile_tokens, sharing, keep_of(region)));
    } else if (contains(chosen_, &unit) && is_named(region)) {
      region.around.fill("recompute", [keep = keep_of(region)](const nn::Region::Body& body, const at::Tensor& input) {
        return strategy::recomputed(body, input, keep);
      });
    }
  });
}

bool Recompute::recompute(const nn::Unit& unit, std::size_t) {
  return options_->regions.empty() && contains(chosen_, &unit);
}

namespace {

std::int64_t bytes_of(const std::string& precision) {
  if (precision == "fp64") return 8;
  return precision == "fp32" ? 4 : 2;
}

// Where tensor parallelism leaves each of its ranks some of the columns, dropout is told which.
bool shares_columns(const nn::Layer& kept) {
  const auto* root = &kept;
  while (root->parent()) root = root->parent();
  bool shares = false;
  root->each<nn::Dropout>([&](const nn::Dropout& dropout) { shares = shares || bool(dropout.first_position); });
  return shares;
}

}  // namespace

std::vector<layout::Footprint> Recompute::footprint(const strategy::Facts& facts) const {
  if (offloaded_.empty() || !facts.trains) return {};
  const auto piece = [](std::int64_t columns, std::int64_t ranks) { return (columns + ranks - 1) / ranks; };
  const auto own = piece(facts.sequence_length, facts.mesh.size(layout::Axis::cp));
  const auto tp = facts.mesh.size(layout::Axis::tp);
  std::int64_t columns = 0, features = 0;
  for (const auto* kept : offloaded_) {
    columns += shares_columns(*kept) ? piece(own, tp) : own;
    if (!options_->keep_attention || !contains(chosen_, kept)) continue;
    kept->each<nn::AttentionCore>([&](const nn::AttentionCore& attention) {
      features += piece(attention.heads().queries, tp) * attention.heads().values();
    });
  }
  const auto token = facts.micro_batch * bytes_of(facts.precision);
  const std::string where = facts.device == "cuda" ? "host" : facts.device;
  std::vector<layout::Footprint> all{
      {"inputs of what is recomputed", columns * facts.model.hidden_size * token, where, "always"}};
  if (features > 0) all.push_back({"what attention computed", own * features * token, where, "always"});
  return all;
}

}  // namespace recompute

CAPSTAN_STRATEGY("recompute", "0.1.0",
                 "runs units, or regions of them, again in backward instead of keeping activations",
                 recompute::Recompute, recompute::RecomputeOptions)
