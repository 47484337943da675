// Expert parallelism (Lepikhin et al. 2021, "GShard"; dropless as in Gale et al. 2023, "MegaBlocks").
#include "expert_parallel.h"

#include <capstan/base/text.h>

#include <algorithm>
#include <cmath>
#include <memory>
#include <string>
#include <utility>

#include "exchange.h"

namespace expert_parallel {

using namespace capstan;
using layout::Axis;

namespace {

// "1, 2, 4 or 8".
std::string divisors_of(std::int64_t n) {
  std::vector<std::string> list;
  for (std::int64_t d = 1; d <= n; ++d) {
    if (n % d == 0) list.push_back(std::to_string(d));
  }
  const auto last = list.back();
  list.pop_back();
  return list.empty() ? last : cat(join(list), " or ", last);
}

std::int64_t bytes_of(const std::string& precision) {
  if (precision == "fp64") return 8;
  return precision == "fp32" ? 4 : 2;
}

}  // namespace

// Ranks that share a node, mostly.
std::vector<plugin::Saving> ExpertParallelOptions::savings() {
  std::vector<plugin::Saving> list;
  for (const int size : {2, 4, 8}) {
    list.push_back(
        {plugin::Saving::By::sharding, cat("share the experts among ", size, " ranks"), {cat("size=", size)}});
  }
  return list;
}

void ExpertParallelOptions::describe(config::OptionTable<ExpertParallelOptions>& t) {
  t.add("size", &ExpertParallelOptions::size)
      .min(1)
      .required()
      .doc("ranks that share the experts of each layer; divides their number");
  t.add("memory_factor", &ExpertParallelOptions::memory_factor)
      .min(1)
      .doc(
          "memory is predicted for this many times the rows that a rank's experts get when the load is even; what they "
          "really get depends on the routers, and no token is dropped");
}

void ExpertParallel::mesh(layout::MeshSpec& spec) {
  spec.set(Axis::ep, options_->size, "strategy.expert_parallel", options_.where(&ExpertParallelOptions::size));
}

void ExpertParallel::claim(strategy::Claims& claims) const {
  claims.exclusive("axis ep");
  // An expert's gradient comes from the tokens of all ranks along ep: there is no way to keep it local.
  claims.shared("summed gradients on dp");
}

void ExpertParallel::check(const strategy::Facts& facts, Diagnostics& diagnostics) const {
  const auto where = options_.where(&ExpertParallelOptions::size);
  const auto experts = facts.model.num_experts;
  if (experts == 0) {
    diagnostics.add(where, "strategy.expert_parallel needs a model with experts, and this one has none",
                    "remove [strategy.expert_parallel], or train a mixture of experts (model.plugin = \"mixtral\")");
  } else if (experts % options_->size != 0) {
    diagnostics.add(where,
                    cat("strategy.expert_parallel.size is ", options_->size, ", but ", experts,
                        " experts cannot be shared evenly by ", options_->size, " ranks"),
                    cat("use a size of ", divisors_of(experts)));
  }
}

void ExpertParallel::structure(std::vector<std::unique_ptr<nn::Unit>>& units) {
  notes_.clear();
  if (options_->size > 1) notes_ = nn::notes_on_other_kinds(units, "expert_parallel");
}

void ExpertParallel::place(nn::Unit& unit, const strategy::Placement& placement) {
  if (placement.mesh.size(Axis::ep) == 1) return;
  unit.each<nn::Experts>([&](nn::Experts& experts) {
    const auto count = experts.down()->records().front().shape.front();
    if (count % options_->size != 0) {  // of the trained model check() has said it
      throw Error(cat("strategy.expert_parallel.size is ", options_->size, ", but ", count,
                      " experts cannot be shared evenly by ", options_->size, " ranks"),
                  cat("use a size of ", divisors_of(count)));
    }
    for (const auto& weight : {experts.gate_up(), experts.down(), experts.gate_up_bias()}) {
      if (!weight) continue;
      for (auto& record : weight->records()) record.compute = record.compute.with({0, {Axis::ep}});
    }
    const auto exchange = std::make_shared<const Exchange>(placement.group({Axis::ep}), unit.name(),
                                                           placement.takes_mean_load ? 1 : options_->memory_factor);
    experts.exchange.must_act();
    experts.exchange.fill("expert_parallel", [exchange](const auto& body, const auto& rows, const auto& counts,
                                                        const auto& ids, nn::RecomputeContext* kept) {
      return (*exchange)(body, rows, counts, ids, kept);
    });
  });
}

std::vector<layout::Footprint> ExpertParallel::footprint(const strategy::Facts& facts) const {
  if (facts.mesh.size(Axis::ep) == 1) return {};
  const auto cp = facts.mesh.size(Axis::cp);
  const auto columns = (facts.sequence_length + cp - 1) / cp;
  const auto even = facts.micro_batch * columns * facts.model.experts_per_token;
  const auto rows = static_cast<std::int64_t>(std::ceil(static_cast<double>(even) * options_->memory_factor));
  return {{cat("expert rows, even load x ", number_text(options_->memory_factor)),
           Exchange::buffers * rows * facts.model.hidden_size * bytes_of(facts.precision), facts.device, "forward"}};
}

}  // namespace expert_parallel

CAPSTAN_STRATEGY("expert_parallel", "0.1.0", "places a mixture's experts on ranks, to which tokens travel",
                 expert_parallel::ExpertParallel, expert_parallel::ExpertParallelOptions)
