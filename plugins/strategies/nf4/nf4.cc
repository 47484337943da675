#include "nf4.h"

#include <capstan/base/text.h>
#include <capstan/strategy_parts/targets.h>
#include <torch/library.h>

#include "codec.h"

namespace nf4 {

using namespace capstan;

// Who multiplies in another format reads the weights otherwise.
void Nf4::claim(strategy::Claims& claims) const { claims.exclusive("matrix products"); }

void Nf4::take(const std::string& role, nn::Weight& weight, std::size_t stacked) {
  if (!strategy::is_target(options_->targets, role)) return;
  const auto codec = std::make_shared<Codec>(stacked);
  for (const auto& record : weight.records()) {
    nn::Codec::Extent whole;
    for (std::size_t d = 0; d < stacked; ++d) whole.matrices *= record.shape[d];
    whole.elements = record.numel() / whole.matrices;
    elements_ += whole.numel();
    bytes_ += codec->bytes(whole);
  }
  weight.set_codec(codec);
  ++taken_[role];
}

void Nf4::structure(Units& units) {
  strategy::refuse_unknown(options_->targets, units, options_.name(&Nf4Options::targets),
                           options_.where(&Nf4Options::targets));
  for (const auto& unit : units) {
    strategy::each_linear(*unit, [&](const nn::Linear& linear) { take(linear.name(), *linear.weight(), 0); });
    // A matrix as Hugging Face's modules have it: gate, up and down of each expert.
    unit->each<nn::Experts>([&](const nn::Experts& experts) {
      for (const auto& weight : {experts.gate_up(), experts.down()})
        take("experts", *weight, weight->records().front().shape.size() - 2);
    });
  }
  say_what_was_taken();
}

void Nf4::say_what_was_taken() {
  if (taken_.empty()) {
    throw Error("strategy.nf4 finds nothing to keep in 4 bits", "name layers in strategy.nf4.targets, or remove it",
                options_.where(&Nf4Options::targets));
  }
  std::vector<std::string> roles;
  for (const auto& [role, count] : taken_) roles.push_back(cat(count, " ", role));
  notes_ = {cat("nf4: ", join(roles), " in 4 bits: ", thousands(elements_), " elements in ",
                bytes_text(static_cast<double>(bytes_)), "; no checkpoint holds them: a run that resumes encodes them ",
                "again, from model.path or run.seed")};
}

std::vector<nn::PackedForm> Nf4::packed_forms() const { return {bnb_form()}; }

void Nf4::place(nn::Unit& unit, const strategy::Placement& /*placement*/) {
  for (const auto& weight : unit.weights()) {
    if (!weight->trainable() || !dynamic_cast<const Codec*>(weight->codec().get())) continue;
    throw Error(cat("strategy.nf4 keeps ", weight->name(), " in 4 bits, and it would be trained"),
                "add strategy.lora, which freezes it and trains adapters next to it, and leave it out of "
                "strategy.lora.modules_to_save; or leave its layer out of strategy.nf4.targets",
                options_.where(&Nf4Options::targets));
  }
}

}  // namespace nf4

// Its one implementation is in nf4_cuda.so, which ranks that use GPUs open too.
TORCH_LIBRARY_FRAGMENT(capstan, m) {
  m.def("nf4_decode(Tensor(a!) values, Tensor bytes, int run, int stride, int first) -> ()");
}

CAPSTAN_STRATEGY("nf4", "0.1.0", "keeps chosen frozen weights in 4 bits", nf4::Nf4, nf4::Nf4Options)
