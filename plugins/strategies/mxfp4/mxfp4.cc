#include "mxfp4.h"

#include <capstan/base/text.h>
#include <torch/library.h>

#include "codec.h"

namespace mxfp4 {

using namespace capstan;

// Who multiplies in another format reads the weights otherwise.
void Mxfp4::claim(strategy::Claims& claims) const { claims.exclusive("matrix products"); }

void Mxfp4::structure(std::vector<std::unique_ptr<nn::Unit>>& units) {
  std::int64_t elements = 0, bytes = 0;
  for (const auto& unit : units) {
    unit->each<nn::Experts>([&](const nn::Experts& experts) {
      for (const auto& weight : {experts.gate_up(), experts.down()}) {
        const auto& record = weight->records().front();
        // A matrix as a product has it: gate, up and down of each expert.
        const auto stacked = record.shape.size() - 2;
        const auto codec = std::make_shared<Codec>(stacked);
        nn::Codec::Extent whole;
        for (std::size_t d = 0; d < stacked; ++d) whole.matrices *= record.shape[d];
        whole.elements = record.numel() / whole.matrices;
        elements += whole.numel();
        bytes += codec->bytes(whole);
        weight->set_codec(codec);
      }
    });
  }
  if (elements == 0) {
    throw Error("strategy.mxfp4 keeps experts' weights, and this model has no experts",
                "remove [strategy.mxfp4]; [strategy.nf4] keeps other layers in 4 bits");
  }
  notes_ = {cat("mxfp4: experts in 4 bits: ", thousands(elements), " elements in ",
                bytes_text(static_cast<double>(bytes)), "; no checkpoint holds them: a run that resumes reads them ",
                "again from model.path")};
}

void Mxfp4::place(nn::Unit& unit, const strategy::Placement& /*placement*/) {
  for (const auto& weight : unit.weights()) {
    if (!weight->trainable() || !dynamic_cast<const Codec*>(weight->codec().get())) continue;
    throw Error(cat("strategy.mxfp4 keeps ", weight->name(), " in 4 bits, and it would be trained"),
                "add strategy.lora, which freezes it and trains adapters next to it, and leave it out of "
                "strategy.lora.modules_to_save; or remove [strategy.mxfp4], and a folder's MXFP4 is decoded");
  }
}

}  // namespace mxfp4

// Its one implementation is in mxfp4_cuda.so, which ranks that use GPUs open too.
TORCH_LIBRARY_FRAGMENT(capstan, m) { m.def("mxfp4_decode(Tensor(a!) values, Tensor codes, Tensor scales) -> ()"); }

CAPSTAN_STRATEGY("mxfp4", "0.1.0", "keeps experts' frozen weights in MXFP4", mxfp4::Mxfp4, mxfp4::Mxfp4Options)
