#include "fp8.h"

#include <capstan/base/text.h>

#include <algorithm>

namespace fp8 {

using namespace capstan;

namespace {

constexpr const char* owner = "fp8";
constexpr const char* everything = "all-linear";

/// The matrices that a product multiplies with, of a weight's records: [out, in], in multiples of which the products
/// must be. Of stacked records each has these sizes.
struct Sizes {
  std::int64_t out = 0;
  std::int64_t in = 0;
  bool fit() const { return out % multiple == 0 && in % multiple == 0; }
};

Sizes sizes_of(const nn::Weight& weight, bool stacked) {
  const auto& shape = weight.records().front().shape;
  const auto matrices = stacked ? shape.front() : 1;
  return {weight.numel() / matrices / shape.back(), shape.back()};
}

bool is_router(const nn::Linear& linear) { return dynamic_cast<const nn::Router*>(linear.parent()) != nullptr; }

bool contains(const std::vector<std::string>& list, const std::string& item) {
  return std::find(list.begin(), list.end(), item) != list.end();
}

std::vector<std::string> roles_of(const std::vector<std::unique_ptr<nn::Unit>>& units) {
  std::vector<std::string> roles{everything};
  const auto add = [&](const std::string& role) {
    if (!contains(roles, role)) roles.push_back(role);
  };
  for (const auto& unit : units) {
    unit->each<nn::Linear>([&](const nn::Linear& linear) {
      if (!is_router(linear)) add(linear.name());
    });
    unit->each<nn::Experts>([&](const nn::Experts&) { add("experts"); });
  }
  return roles;
}

// The blocks: units that have layers to multiply. Embeddings and the head have none.
std::vector<const nn::Unit*> blocks_of(const std::vector<std::unique_ptr<nn::Unit>>& units) {
  std::vector<const nn::Unit*> blocks;
  for (const auto& unit : units) {
    if (!unit->all<nn::Linear>().empty() || !unit->all<nn::Experts>().empty()) blocks.push_back(unit.get());
  }
  return blocks;
}

std::string counted(const std::map<std::string, std::int64_t>& counts) {
  std::vector<std::string> parts;
  for (const auto& [name, count] : counts) parts.push_back(cat(count, " ", name));
  return join(parts);
}

}  // namespace

void Fp8::claim(strategy::Claims& claims) const { claims.exclusive("matrix products"); }

void Fp8::check(const strategy::Facts& facts, Diagnostics& faults) const {
  if (facts.precision == "fp16") {
    faults.add(options_.where(&Fp8Options::recipe),
               "strategy.fp8 multiplies for bf16, and train.precision is \"fp16\", whose losses are scaled",
               "set train.precision = \"bf16\"");
  }
  if (facts.device == "cpu") return;
  if (facts.precision != "bf16" && facts.precision != "bf16_pure" && facts.precision != "fp16") {
    faults.add(options_.where(&Fp8Options::recipe),
               cat("FP8 products of a GPU are for bf16, and train.precision is \"", facts.precision, "\""),
               "set train.precision = \"bf16\", or remove strategy.fp8");
  }
  if (facts.gpu_capability > 0 && facts.gpu_capability < 90) {
    faults.add(options_.where(&Fp8Options::recipe),
               cat("strategy.fp8 needs GPUs of compute capability 9.0 (H100, H200), and these have ",
                   facts.gpu_capability / 10, ".", facts.gpu_capability % 10, ", which cannot multiply in FP8 by row"),
               "remove strategy.fp8: these GPUs compute in bf16");
  }
}

bool Fp8::is_target(const std::string& role) const {
  return contains(options_->targets, role) || contains(options_->targets, everything);
}

void Fp8::refuse_unknown(const Units& units, Diagnostics& faults) const {
  const auto known = roles_of(units);
  for (const auto& name : options_->targets) {
    if (contains(known, name)) continue;
    faults.add(options_.where(&Fp8Options::targets),
               cat(options_.name(&Fp8Options::targets), " names \"", name, "\", but the model has: ", join(known)),
               suggestion(name, known));
  }
}

bool Fp8::take(const nn::Layer& layer, const std::string& role, const nn::WeightPtr& weight) {
  if (!is_target(role)) return false;
  const auto sizes = sizes_of(*weight, dynamic_cast<const nn::Experts*>(&layer) != nullptr);
  if (!sizes.fit()) {
    ++odd_[cat(role, " [", sizes.out, " x ", sizes.in, "]")];
    return false;
  }
  ++taken_[role];
  return true;
}

void Fp8::structure(Units& units) {
  Diagnostics faults;
  refuse_unknown(units, faults);
  faults.throw_if_any();
  auto blocks = blocks_of(units);
  const auto all = static_cast<std::int64_t>(blocks.size());
  const auto first = std::min(options_->skip_first, all), last = std::max(first, all - options_->skip_last);
  blocks_.assign(blocks.begin() + first, blocks.begin() + last);
  for (const auto* unit : blocks_) {
    unit->each<nn::Linear>([&](const nn::Linear& linear) {
      if (!is_router(linear)) take(linear, linear.name(), linear.weight());
    });
    unit->each<nn::Experts>([&](const nn::Experts& experts) {
      take(experts, "experts", experts.gate_up());
      take(experts, "experts", experts.down());
    });
  }
  say_what_was_taken(blocks.size());
}

void Fp8::say_what_was_taken(std::size_t blocks) {
  if (taken_.empty()) {
    throw Error(cat("strategy.fp8 leaves nothing to multiply in 8 bits",
                    odd_.empty() ? std::string() : cat(": no multiples of 16 are the sizes of ", counted(odd_))),
                "change strategy.fp8.targets, skip_first or skip_last, or remove strategy.fp8",
                options_.where(&Fp8Options::targets));
  }
  notes_ = {cat("fp8: products of ", counted(taken_), " in ", blocks_.size(), " of ", blocks, " blocks, ",
                options_->recipe, "; all others in train.precision")};
  if (!odd_.empty())
    notes_.push_back(cat("fp8: in train.precision, since sizes are no multiples of 16: ", counted(odd_)));
}

std::shared_ptr<const Multiplier> Fp8::multiplier(const nn::Layer& layer, nn::WeightPtr weight,
                                                  const strategy::Placement& placement) const {
  auto made = std::make_shared<Multiplier>();
  made->by_row = options_->recipe == "rowwise" || dynamic_cast<const nn::Experts*>(&layer) != nullptr;
  made->gradient = options_->backward == "e5m2" ? at::kFloat8_e5m2 : at::kFloat8_e4m3fn;
  made->weight_gradient = options_->backward != "bf16";
  made->fast = options_->accumulate == "fast";
  made->layer = layer.path();
  if (!weight->trainable()) {
    made->frozen = std::make_shared<Frozen>();
    made->frozen_transpose = std::make_shared<Frozen>();
  }
  made->weight = std::move(weight);
  if (placement.mesh.size(layout::Axis::tp) > 1) made->group = placement.group({layout::Axis::tp});
  return made;
}

void Fp8::place(nn::Unit& unit, const strategy::Placement& placement) {
  if (std::find(blocks_.begin(), blocks_.end(), &unit) == blocks_.end()) return;
  unit.each<nn::Linear>([&](nn::Linear& linear) {
    if (is_router(linear) || !is_target(linear.name()) || !sizes_of(*linear.weight(), false).fit()) return;
    linear.multiply.fill(
        owner, [how = multiplier(linear, linear.weight(), placement)](const at::Tensor& x, const at::Tensor& weight) {
          return Multiplier::multiply(how, x, weight);
        });
  });
  unit.each<nn::Experts>([&](nn::Experts& experts) {
    if (!is_target("experts")) return;
    const auto fill = [&](nn::Experts::MultiplyPort& port, const nn::WeightPtr& weight) {
      if (!sizes_of(*weight, true).fit()) return;
      port.fill(owner, [how = multiplier(experts, weight, placement)](const auto& rows, const auto& matrices,
                                                                      const auto& ends) {
        return Multiplier::multiply_grouped(how, rows, matrices, ends);
      });
    };
    fill(experts.gate_up_multiply, experts.gate_up());
    fill(experts.down_multiply, experts.down());
  });
}

}  // namespace fp8
