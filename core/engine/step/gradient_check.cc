#include "step/gradient_check.h"

#include <ATen/ATen.h>
#include <capstan/base/error.h>
#include <capstan/base/log.h>
#include <capstan/base/text.h>

#include <algorithm>
#include <map>
#include <set>
#include <utility>

#include "comm/agree.h"
#include "step/expert_layers.h"
#include "strategy/passed_over.h"

namespace capstan::step {
namespace {

constexpr std::size_t names_in_message = 6;

// The ranks whose gradients of the weight are added up, this one's among them.
std::vector<layout::Axis> summed_axes(const layout::Param& record) {
  std::vector<layout::Axis> axes;
  for (const auto axis : record.data_axes) {
    if (!layout::has_axis(record.local_axes, axis)) axes.push_back(axis);
  }
  axes.insert(axes.end(), record.partial_axes.begin(), record.partial_axes.end());
  return axes;
}

// Ranks along ep hold different experts, so an expert's gradient is not summed there.
bool is_of_experts(const layout::Param& record) { return !layout::has_axis(record.data_axes, layout::Axis::ep); }

std::string first_of(const std::vector<std::string>& names, std::string_view separator = ", ") {
  const auto shown = std::min(names.size(), names_in_message);
  const std::vector<std::string> first(names.begin(), names.begin() + static_cast<std::ptrdiff_t>(shown));
  return cat(join(first, separator), names.size() > shown ? cat(" and ", names.size() - shown, " more") : "");
}

// "layer 0: 3, 7; layer 2: 1", and how many there are.
std::pair<std::string, std::int64_t> idle_experts(const at::Tensor& by_layer) {
  std::vector<std::string> layers;
  std::int64_t idle = 0;
  for (std::int64_t layer = 0; layer < by_layer.size(0); ++layer) {
    std::vector<std::string> numbers;
    for (std::int64_t e = 0; e < by_layer.size(1); ++e) {
      if (by_layer[layer][e].item<double>() == 0) numbers.push_back(std::to_string(e));
    }
    idle += static_cast<std::int64_t>(numbers.size());
    if (!numbers.empty()) layers.push_back(cat("layer ", layer, ": ", first_of(numbers)));
  }
  return {first_of(layers, "; "), idle};
}

void say_all_is_well(std::size_t records, const at::Tensor& expert_tokens) {
  log::info(cat("gradients: the first step's backward reached all ", records, " trainable records"));
  if (expert_tokens.numel() == 0) return;
  const auto [text, idle] = idle_experts(expert_tokens);
  if (idle == 0) return;
  log::info(cat("experts: no token of the first step reached ", idle, " of ", expert_tokens.numel(), " (", text, ")"));
}

}  // namespace

GradientCheck::GradientCheck(const Session& session) : session_(session), mesh_(session.job->topology.mesh) {}

// Lists the model's trained weights; returns what this rank has seen of each: '1' a gradient, '0' none, '-' it is not
// here.
std::string GradientCheck::list_weights() {
  std::map<const nn::Weight*, shard::Reached> here;
  for (auto& one : session_.engine->reached()) here.emplace(one.weight, one);
  const ExpertLayers layers(session_.job->model->units);
  std::set<const nn::Weight*> seen;
  std::string mine;
  for (const auto& unit : session_.job->model->units) {
    const auto layer = unit->all<nn::Experts>().empty() ? -1 : layers.first_of(unit.get());
    for (const auto& weight : unit->weights()) {
      if (!weight->trainable() || !seen.insert(weight.get()).second) continue;
      const auto found = here.find(weight.get());
      const bool is_here = found != here.end();
      mine += !is_here ? '-' : found->second.reached ? '1' : '0';
      weights_.push_back({weight.get(), is_here ? found->second.bucket : unit->name(), layer});
    }
  }
  return mine;
}

// Before gradients: what was passed over may have had some.
void GradientCheck::refuse_passed_over() const {
  auto mine = strategy::passed_over(session_.runner->units());
  for (const auto& frozen : session_.job->frozen) {
    if (mine.empty()) mine = strategy::passed_over(frozen.model->own_units());
  }
  for (const auto& each : comm::exchange_texts(*session_.world_host, mine, "exchange which ports were asked"))
    if (!each.empty()) throw Error(each, strategy::passed_over_fix);
}

void GradientCheck::run(const at::Tensor& expert_tokens) {
  if (std::exchange(done_, true)) return;
  refuse_passed_over();
  const auto mine = list_weights();
  const auto ranks = comm::exchange_texts(*session_.world_host, mine, "exchange which weights have gradients");
  const auto missing = find(ranks, expert_tokens);
  if (!missing.empty()) refuse(missing);
  std::size_t records = 0;
  for (const auto& one : weights_) records += one.weight->records().size();
  say_all_is_well(records, expert_tokens);
}

std::vector<GradientCheck::Missing> GradientCheck::find(const std::vector<std::string>& ranks,
                                                        const at::Tensor& expert_tokens) const {
  std::vector<Missing> missing;
  for (std::size_t w = 0; w < weights_.size(); ++w) {
    const auto is = [&](int rank, char what) { return ranks[static_cast<std::size_t>(rank)].at(w) == what; };
    const auto has = [&](int rank) { return is(rank, '1'); };
    const auto& record = weights_[w].weight->records().front();
    const auto axes = summed_axes(record);
    Missing found{w, {}};
    for (int rank = 0; rank < mesh_.world_size(); ++rank) {
      if (has(rank) || is(rank, '-')) continue;
      const auto together = mesh_.ranks_along(axes, rank);
      if (std::any_of(together.begin(), together.end(), has)) continue;
      if (is_of_experts(record) && !had_tokens(weights_[w], rank, expert_tokens)) continue;
      found.ranks.push_back(rank);
    }
    if (!found.ranks.empty()) missing.push_back(std::move(found));
  }
  return missing;
}

// Whether the experts that this rank holds had tokens; also true where tokens were not counted.
bool GradientCheck::had_tokens(const Trained& trained, int rank, const at::Tensor& expert_tokens) const {
  const auto layer = trained.expert_layer;
  if (layer < 0 || layer >= expert_tokens.size(0)) return true;
  const auto counts = expert_tokens[layer];
  const auto& record = trained.weight->records().front();
  const auto box = record.compute.box(record.shape, mesh_, rank);
  if (record.shape.front() != counts.size(0)) return true;
  return counts.narrow(0, box.offset.front(), box.size.front()).sum().item<double>() > 0;
}

void GradientCheck::refuse(const std::vector<Missing>& missing) const {
  std::map<std::string, std::vector<std::string>> names;  // by bucket
  std::size_t records = 0;
  for (const auto& one : missing) {
    for (const auto& record : weights_[one.weight].weight->records()) {
      names[weights_[one.weight].joined].push_back(record.name);
      ++records;
    }
  }
  std::vector<std::string> lines;
  for (const auto& [bucket, of_bucket] : names) lines.push_back(cat(first_of(of_bucket), ", joined in ", bucket));
  const auto& ranks = missing.front().ranks;
  std::vector<std::string> numbers;
  for (const auto rank : ranks) numbers.push_back(std::to_string(rank));
  const bool everywhere = static_cast<int>(ranks.size()) == mesh_.world_size();
  throw Error(cat("the first step's backward left ", records, records == 1 ? " trainable record" : " trainable records",
                  " without a gradient", everywhere ? "" : cat(" on rank ", first_of(numbers)),
                  ", so training would never change ", records == 1 ? "it: " : "them: ", first_of(lines, "; ")),
              "freeze what the loss does not depend on. If the loss does depend on these records, then what joins, "
              "freezes or recomputes their units loses the gradient: leave out those strategies' options, one by one");
}

}  // namespace capstan::step
