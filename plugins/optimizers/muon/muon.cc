#include "muon.h"

#include <ATen/ATen.h>
#include <capstan/adamw/adamw.h>
#include <capstan/base/error.h>

#include <algorithm>
#include <cmath>
#include <utility>

#include "newton_schulz.h"

namespace muon {

using namespace capstan;
using matrix_rules::Part;

void MuonOptions::describe(config::OptionTable<MuonOptions>& t) {
  t.add("momentum", &MuonOptions::momentum).min(0).doc("the momentum's decay rate, in [0, 1)");
  t.add("nesterov", &MuonOptions::nesterov).doc("step by the momentum with this step's gradient once more in it");
  t.add("ns_steps", &MuonOptions::ns_steps).min(1).max(20).doc("steps of the Newton-Schulz iteration");
  t.add("scale", &MuonOptions::scale)
      .choices({"match_rms_adamw", "original"})
      .doc(
          "an update is orthogonal times 0.2 sqrt(max(rows, columns)), so that learning rates of AdamW fit, or times "
          "sqrt(max(1, rows / columns)), as in Jordan's");
  t.add("adapters", &MuonOptions::adapters).doc("update the matrices of adapters too, which else AdamW does");
  t.add("adamw_betas", &MuonOptions::adamw_betas).doc("AdamW's two decay rates, each in [0, 1)");
  t.add("adamw_eps", &MuonOptions::adamw_eps).above(0).doc("AdamW's epsilon");
  t.add("adamw_lr_factor", &MuonOptions::adamw_lr_factor)
      .min(0)
      .doc("multiplies the learning rate of what AdamW updates");
}

namespace {

std::int64_t rows_of(const layout::Param& record) { return record.shape[record.shape.size() - 2]; }

}  // namespace

Muon::Muon(config::Options<MuonOptions> options) : options_(std::move(options)) {
  if (options_->momentum >= 1) {
    throw Error(options_.name(&MuonOptions::momentum) + " is " + config::value_text(options_->momentum),
                "give a number in [0, 1), such as 0.95", options_.where(&MuonOptions::momentum));
  }
  const auto& betas = options_->adamw_betas;
  if (betas.size() != 2 || betas[0] < 0 || betas[0] >= 1 || betas[1] < 0 || betas[1] >= 1) {
    throw Error(options_.name(&MuonOptions::adamw_betas) + " is " + config::value_text(betas),
                "give two numbers in [0, 1), such as [0.9, 0.999]", options_.where(&MuonOptions::adamw_betas));
  }
  adamw_ = optimizer::adamw({{betas[0], betas[1]}, options_->adamw_eps});
}

// Norms and biases are not decayed, stacked ones of experts neither, which have two dimensions.
bool Muon::takes(const layout::Param& record) const {
  const bool used =
      record.usage == layout::Usage::layer || (record.usage == layout::Usage::adapter && options_->adapters);
  return used && record.decay && record.shape.size() > 1;
}

double Muon::scale_of(const layout::Param& record) const {
  const auto rows = static_cast<double>(rows_of(record)), cols = static_cast<double>(record.shape.back());
  if (options_->scale == "original") return std::sqrt(std::max(1.0, rows / cols));
  return 0.2 * std::sqrt(std::max(rows, cols));  // Liu et al. 2025, "Muon is Scalable for LLM Training"
}

std::vector<optimizer::StateSpec> Muon::states(const layout::Param& record) const {
  return takes(record) ? std::vector<optimizer::StateSpec>{{"momentum"}} : adamw_->states(record);
}

std::optional<matrix_rules::WholeSpec> Muon::whole_spec(const layout::Param& record, c10::ScalarType master,
                                                        c10::DeviceType device) const {
  if (!takes(record)) return {};
  const auto narrow = device == c10::DeviceType::CPU ? at::kFloat : at::kBFloat16;
  const auto dtype = master == at::kDouble ? at::kDouble : narrow;
  const auto rows = rows_of(record), cols = record.shape.back();
  return matrix_rules::WholeSpec{dtype, newton_schulz_work(rows, cols, options_->ns_steps),
                                 newton_schulz_bytes(rows, cols, dtype)};
}

void Muon::begin(std::vector<Part>& parts, const optimizer::Update& update) {
  const auto made = 1 - update.skip;  // a step that is skipped changes nothing
  const auto share = made.to(parts.front().state[0].scalar_type()) * (1 - options_->momentum);
  for (auto& part : parts) {
    auto& momentum = part.state[0];
    auto gradient = (part.grad / update.grad_scale).nan_to_num_(0.0, 0.0, 0.0);
    momentum.lerp_(gradient, share);
    if (!part.part.defined()) continue;
    part.part.copy_(options_->nesterov ? gradient.lerp_(momentum, options_->momentum) : momentum);
  }
}

void Muon::whole(const matrix_rules::Matrices& matrices, const optimizer::Update& /*update*/) {
  orthogonalise_(matrices.value, options_->ns_steps);
}

void Muon::finish(std::vector<Part>& parts, const optimizer::Update& update) {
  const auto made = 1 - update.skip;
  for (auto& part : parts) {
    const auto type = part.master.scalar_type();
    const auto taken = made.to(type);
    if (part.weight_decay != 0) part.master.addcmul_(part.master, taken, -part.lr * part.weight_decay);
    part.master.addcmul_(part.part.to(type), taken, -part.lr * scale_of(*part.record));
  }
}

void Muon::apply(std::vector<optimizer::Slice>& slices, const optimizer::Update& update) {
  for (auto& slice : slices) slice.lr *= options_->adamw_lr_factor;
  adamw_->apply(slices, update);
}

}  // namespace muon

CAPSTAN_OPTIMIZER("muon", "1.0", "Muon: matrices step by orthogonal updates, the rest by AdamW", muon::Muon,
                  muon::MuonOptions)
