#include <capstan/base/text.h>
#include <capstan/strategy/claims.h>
#include <capstan/strategy/loss_hooks.h>
#include <capstan/strategy/own_state.h>
#include <capstan/strategy/strategy.h>

#include <algorithm>

namespace capstan::strategy {
namespace {

bool holds(const std::vector<std::string>& list, const std::string& resource) {
  return std::find(list.begin(), list.end(), resource) != list.end();
}

bool claims_it(const Claims& claims, const std::string& resource) {
  return holds(claims.exclusive_claims(), resource) || holds(claims.shared_claims(), resource);
}

}  // namespace

Strategy::~Strategy() = default;
Exporter::~Exporter() = default;
StepHooks::~StepHooks() = default;
LossHooks::~LossHooks() = default;
OwnState::~OwnState() = default;
State::~State() = default;

std::string gradient_reduction_point(layout::Axis axis) { return cat("gradient reduction on ", axis); }

UnitHooks::~UnitHooks() = default;

void Claims::exclusive(std::string resource) { exclusive_.push_back(std::move(resource)); }

void Claims::shared(std::string resource) { shared_.push_back(std::move(resource)); }

void Claims::needs(std::string resource, std::string fix) { needs_.emplace_back(std::move(resource), std::move(fix)); }

void judge_claims(const std::vector<ClaimsOf>& all, Diagnostics& diagnostics) {
  for (std::size_t i = 0; i < all.size(); ++i) {
    for (const auto& resource : all[i].claims.exclusive_claims()) {
      for (std::size_t j = 0; j < all.size(); ++j) {
        const bool both_exclusive = holds(all[j].claims.exclusive_claims(), resource);
        if (j == i || !claims_it(all[j].claims, resource) || (both_exclusive && j < i)) continue;
        diagnostics.add(all[j].where,
                        cat("strategies '", all[i].plugin, "' (", all[i].where, ") and '", all[j].plugin,
                            "' both claim ", resource),
                        cat("remove one of them, or set strategy.", all[j].plugin, ".enabled = false"));
      }
    }
    for (const auto& [resource, fix] : all[i].claims.requirements()) {
      const bool met = std::any_of(all.begin(), all.end(), [&, r = resource](const ClaimsOf& other) {
        return &other != &all[i] && claims_it(other.claims, r);
      });
      if (!met) {
        diagnostics.add(all[i].where,
                        cat("strategy '", all[i].plugin, "' needs another strategy that provides ", resource), fix);
      }
    }
  }
}

}  // namespace capstan::strategy
