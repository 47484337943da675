// What strategy.fp8 refuses, and in which words.
#include <capstan/base/text.h>

#include "fp8.h"
#include "reference.h"

namespace fp8 {

using namespace capstan;

void Fp8::check(const strategy::Facts& facts, Diagnostics& faults) const {
  if (facts.precision == "fp16") {
    faults.add(place_of(&Fp8Options::recipe),
               "strategy.fp8 multiplies for bf16, and train.precision is \"fp16\", whose losses are scaled",
               "set train.precision = \"bf16\"");
  }
  if (stores() && options_->recipe == "tensorwise") {
    faults.add(place_of(&Fp8Options::store),
               cat("strategy.fp8.store = \"", options_->store, "\" keeps scales of rows or blocks, and recipe is \"",
                   options_->recipe, "\""),
               R"(set strategy.fp8.recipe = "rowwise" or "blockwise", or store = "bf16")");
  }
  check_blocks(faults);
  if (gathers() && options_->recipe != "tensorwise") {
    faults.add(place_of(&Fp8Options::gather),
               cat(R"(strategy.fp8.gather = "fp8" sends a scale for each weight, and recipe is ")", options_->recipe,
                   "\", with which backward would round the weights once more"),
               R"(set strategy.fp8.recipe = "tensorwise", or gather = "bf16")");
  }
  check_reference(faults);
  if (facts.device == "cpu") return;
  if (facts.precision != "bf16" && facts.precision != "bf16_pure" && facts.precision != "fp16") {
    faults.add(place_of(&Fp8Options::recipe),
               cat("FP8 products of a GPU are for bf16, and train.precision is \"", facts.precision, "\""),
               "set train.precision = \"bf16\", or remove strategy.fp8");
  }
  if (facts.gpu_capability > 0 && facts.gpu_capability < 90) {
    faults.add(place_of(&Fp8Options::recipe),
               cat("strategy.fp8 needs GPUs of compute capability 9.0 (H100, H200), and these have ",
                   facts.gpu_capability / 10, ".", facts.gpu_capability % 10, ", which cannot multiply in FP8 by row"),
               "remove strategy.fp8: these GPUs compute in bf16");
  }
}

void Fp8::check_blocks(Diagnostics& faults) const {
  if (options_->recipe != "blockwise") return;
  if (options_->backward == "e5m2") {
    faults.add(
        place_of(&Fp8Options::backward),
        R"(strategy.fp8.recipe = "blockwise" multiplies only e4m3, and backward is "e5m2")",
        R"(remove strategy.fp8.backward: a block of 128 needs less range than a row; or set recipe = "rowwise")");
  }
}

void Fp8::check_reference(Diagnostics& faults) const {
  const Fp8Options defaults;  // which a run's own config.toml sets
  const bool has_band = options_->band != defaults.band || options_->window != defaults.window;
  if (!options_->reference) {
    if (!has_band) return;
    faults.add(options_.section().origin.text(),
               "strategy.fp8.band and window say how far losses may be from strategy.fp8.reference, which is not set",
               "name the metrics.jsonl of a run in bf16 there, or remove them");
    return;
  }
  try {
    (void)losses_of({*options_->reference, options_->band, options_->window});
  } catch (const Error& error) {
    for (const auto& fault : error.diagnostics()) {
      faults.add(place_of(&Fp8Options::reference), cat("strategy.fp8.reference: ", fault.text()),
                 fault.fix.empty() ? "name the metrics.jsonl of a run in bf16" : "");
    }
  }
}

void Fp8::refuse_trained(const nn::Unit& unit) const {
  for (const auto& weight : unit.weights()) {
    if (chosen_.count(weight) == 0 || !weight->trainable()) continue;
    throw Error(cat("strategy.fp8.store = \"", options_->store, "\" keeps ", weight->name(),
                    " in 8 bits, and it would be trained"),
                "add strategy.lora, which freezes it and trains adapters next to it, and leave it out of "
                "strategy.lora.modules_to_save; or set strategy.fp8.store = \"bf16\"",
                place_of(&Fp8Options::store));
  }
}

// A whole matrix that does not fit stays in train.precision, and was named. Where a split leaves pieces that do not,
// another split would do: that is for the user to decide.
void Fp8::refuse_misfits(const strategy::Facts& facts) const {
  std::map<std::string, std::string> found;  // by layer: weights have no order
  const Multiplier* first = nullptr;
  for (const auto& [weight, how] : multipliers_) {
    for (const int rank : facts.mesh.ranks_along(layout::model_axes, facts.rank)) {
      const auto piece = how->misfit(facts.mesh, rank);
      if (!piece) continue;
      const auto text = cat((*piece)[0], " x ", (*piece)[1]);
      if (found.empty() || how->layer < found.begin()->first) first = how.get();
      auto& said = found[how->layer];  // experts have two weights: each rank names the same one
      if (said.empty() || text < said) said = text;
      break;
    }
  }
  if (found.empty()) return;
  const auto more = found.size() - 1;
  throw Error(cat("layer ", found.begin()->first, " is split into pieces of ", found.begin()->second,
                  more == 0 ? "" : cat(", and ", more, " more of the layers do not fit"), ": ",
                  first->scaling == Scaling::block ? "FP8 products by block" : "FP8 products", " take multiples of ",
                  first->sizes_of()),
              "set a smaller strategy.tensor_parallel.size, or leave the layer out of strategy.fp8.targets",
              place_of(&Fp8Options::targets));
}

// A rank's shard of a matrix ends with a row of tiles.
void Fp8::refuse_cut_tiles(const strategy::Facts& facts) const {
  for (const auto& weight : chosen_) {
    if (!dynamic_cast<const StoredTiles*>(weight->codec().get())) continue;
    for (const auto& record : weight->records()) {
      for (int rank = 0; rank < facts.mesh.world_size(); ++rank) {
        const auto size = record.param.layout.box(record.shape, facts.mesh, rank).size;
        if (size.front() % quantised_block == 0 && size.back() % quantised_block == 0) continue;
        throw Error(cat("strategy.fp8 stores ", record.name, " with a scale for each ", quantised_block, " x ",
                        quantised_block, ", and a rank has ", size.front(), " x ", size.back(), " of it"),
                    "let another number of ranks share it, leave its layer out of strategy.fp8.targets, or set "
                    "strategy.fp8.recipe = \"rowwise\" or store = \"bf16\"",
                    place_of(&Fp8Options::store));
      }
    }
  }
}

}  // namespace fp8
