#include "fp8.h"

#include <capstan/base/text.h>
#include <capstan/strategy/loss_hooks.h>
#include <capstan/strategy_parts/targets.h>

#include <algorithm>
#include <utility>

#include "reference.h"

namespace fp8 {

using namespace capstan;

namespace {

constexpr const char* owner = "fp8";

/// The sizes [out, in] of the matrices of a weight's records that a product multiplies with, each stacked one too.
struct Sizes {
  std::int64_t out = 0;
  std::int64_t in = 0;
};

Sizes sizes_of(const nn::Weight& weight, bool stacked) {
  const auto& shape = weight.records().front().shape;
  const auto matrices = stacked ? shape.front() : 1;
  return {weight.numel() / matrices / shape.back(), shape.back()};
}

// Are tiles of 128 rows in one record each, and their scales as many as are moved?
bool fit_tiles(const nn::Weight& weight) {
  return std::all_of(weight.records().begin(), weight.records().end(), [](const layout::Param& record) {
    return record.shape.front() % quantised_block == 0 && record.shape.back() <= StoredTiles::most_columns;
  });
}

// The blocks: units that have layers to multiply. Embeddings and the head have none.
std::vector<const nn::Unit*> blocks_of(const std::vector<std::unique_ptr<nn::Unit>>& units) {
  std::vector<const nn::Unit*> blocks;
  for (const auto& unit : units) {
    if (!unit->all<nn::Linear>().empty() || !unit->all<nn::Experts>().empty()) blocks.push_back(unit.get());
  }
  return blocks;
}

/// Reports counts, and looks at losses.
class WatchedSteps : public CountsOfSteps, public strategy::LossHooks {
 public:
  WatchedSteps(std::shared_ptr<Counts> counts, LossBand band)
      : CountsOfSteps(std::move(counts)), band_(std::move(band)) {}
  void loss_known(std::int64_t step, double loss) override { band_.loss_known(step, loss); }

 private:
  LossBand band_;
};

std::string counted(const std::map<std::string, std::int64_t>& counts) {
  std::vector<std::string> parts;
  for (const auto& [name, count] : counts) parts.push_back(cat(count, " ", name));
  return join(parts);
}

}  // namespace

void Fp8Options::describe(config::OptionTable<Fp8Options>& t) {
  t.add("recipe", &Fp8Options::recipe)
      .choices({"rowwise", "tensorwise", "blockwise"})
      .doc(
          "what shares a scale: each row of a product's operands, each operand, or 128 neighbours of a row (in weights "
          "128 x 128); experts' products always have one a row. Scales are powers of two and made from each "
          "operand");
  t.add("targets", &Fp8Options::targets)
      .doc(
          "layers that multiply in 8 bits, by NeMo's roles (linear_qkv, linear_proj, linear_fc1, linear_fc2, experts), "
          "or \"all-linear\": all of these. Embeddings, routers and the head never do, nor matrices whose sizes are no "
          "multiples of 16 (by block, 128)");
  t.add("skip_first", &Fp8Options::skip_first).min(0).doc("how many of the first blocks stay in train.precision");
  t.add("skip_last", &Fp8Options::skip_last).min(0).doc("how many of the last blocks stay in train.precision");
  t.add("backward", &Fp8Options::backward)
      .choices({"e4m3", "e5m2", "bf16"})
      .doc(
          "format of the result's gradient in backward's two products (e5m2: more range, fewer digits); bf16: the "
          "weight's gradient is multiplied in train.precision, and that of the input in e4m3. Blocks are e4m3 or bf16");
  t.add("accumulate", &Fp8Options::accumulate)
      .choices({"fast", "precise"})
      .doc(
          "how a GPU adds up products: fast keeps partial sums in fewer digits than float32. Blocks' sums are always "
          "precise, and all on CPU");
  t.add("store", &Fp8Options::store)
      .choices({"bf16", "fp8", "fp8_both"})
      .doc(
          "how these layers' frozen weights are kept. fp8: only in 8 bits, with their scales, rounded while they are "
          "read; backward transposes them for each use. fp8_both: transposed besides, which is faster. bf16: in "
          "train.precision, and in 8 bits in both forms");
  t.add("gather", &Fp8Options::gather)
      .choices({"bf16", "fp8"})
      .doc(
          "how ranks that share these layers' trained weights (fsdp, zero) gather them. fp8: in 8 bits, half the "
          "bytes, and no rank holds them in 16; recipe = \"tensorwise\" then multiplies the same numbers bit for bit. "
          "Experts "
          "are gathered in train.precision");
  t.add("reference", &Fp8Options::reference)
      .path()
      .doc(
          "metrics.jsonl of a run with the same data in bf16: this run ends when its mean loss leaves the band above "
          "it; steps that the file lacks are not compared");
  t.add("band", &Fp8Options::band)
      .above(0)
      .max(100)
      .doc("how far above the reference's a loss may be, as a share of it");
  t.add("window", &Fp8Options::window).min(1).doc("how many steps each compared mean is taken over");
}

void Fp8::claim(strategy::Claims& claims) const { claims.exclusive("matrix products"); }

Scaling Fp8::scaling(bool experts) const {
  if (experts || options_->recipe == "rowwise") return Scaling::row;
  return options_->recipe == "tensorwise" ? Scaling::tensor : Scaling::block;
}

std::unique_ptr<strategy::StepHooks> Fp8::step() {
  if (!options_->reference) return std::make_unique<CountsOfSteps>(counts_);
  const Band band{*options_->reference, options_->band, options_->window};
  return std::make_unique<WatchedSteps>(counts_, LossBand(band, losses_of(band)));
}

void Fp8::choose(const nn::Layer& layer, const std::string& role, const nn::WeightPtr& weight) {
  if (!strategy::is_target(options_->targets, role)) return;
  const bool experts = dynamic_cast<const nn::Experts*>(&layer) != nullptr;
  const bool tiles = scaling(experts) == Scaling::block;
  const auto sizes = sizes_of(*weight, experts);
  const auto of = tiles ? quantised_block : multiple;
  if (sizes.out % of != 0 || sizes.in % of != 0 || (tiles && stores() && !fit_tiles(*weight))) {
    ++odd_[cat(role, " [", sizes.out, " x ", sizes.in, "]")];
    return;
  }
  ++taken_[role];
  chosen_.insert(weight);
  set_codecs(*weight, experts);
}

void Fp8::set_codecs(nn::Weight& weight, bool experts) const {
  if (gathers() && !experts) weight.set_codec(std::make_shared<Sent>());
  if (!stores()) return;
  const auto& shape = weight.records().front().shape;
  if (scaling(experts) == Scaling::block) {
    weight.set_codec(std::make_shared<StoredTiles>(shape.back()));
  } else {
    weight.set_codec(std::make_shared<Stored>(shape.size()));
  }
}

std::string Fp8::sizes_text() const {
  if (options_->recipe != "blockwise") return std::to_string(multiple);
  auto text = cat(quantised_block, " (experts: ", multiple, ")");
  if (stores())
    text += cat(", each of a layer's parts, and at most ", thousands(StoredTiles::most_columns), " columns");
  return text;
}

void Fp8::structure(Units& units) {
  strategy::refuse_unknown(options_->targets, units, options_.name(&Fp8Options::targets),
                           place_of(&Fp8Options::targets));
  const auto blocks = blocks_of(units);
  const auto all = static_cast<std::int64_t>(blocks.size());
  const auto first = std::min(options_->skip_first, all), last = std::max(first, all - options_->skip_last);
  for (auto block = first; block < last; ++block) {
    const auto& unit = *blocks[static_cast<std::size_t>(block)];
    strategy::each_linear(unit, [&](const nn::Linear& linear) { choose(linear, linear.name(), linear.weight()); });
    unit.each<nn::Experts>([&](const nn::Experts& experts) {
      choose(experts, "experts", experts.gate_up());
      choose(experts, "experts", experts.down());
    });
  }
  say_what_was_taken(last - first, all);
}

void Fp8::say_what_was_taken(std::int64_t blocks, std::int64_t all) {
  if (taken_.empty()) {
    throw Error(cat("strategy.fp8 leaves nothing to multiply in 8 bits",
                    odd_.empty() ? std::string()
                                 : cat(": no multiples of ", sizes_text(), " are the sizes of ", counted(odd_))),
                "change strategy.fp8.targets, skip_first or skip_last, or remove strategy.fp8",
                place_of(&Fp8Options::targets));
  }
  const bool two = options_->recipe != "rowwise" && taken_.contains("experts");
  notes_ = {cat("fp8: products of ", counted(taken_), " in ", blocks, " of ", all, " blocks, ", options_->recipe,
                two ? ", experts' rowwise" : "", "; all others in train.precision")};
  if (stores()) {
    std::int64_t elements = 0;
    for (const auto& weight : chosen_) elements += weight->numel();
    notes_.push_back(cat("fp8: their ", thousands(elements), " frozen numbers are kept only in 8 bits; no checkpoint ",
                         "holds them: a run that resumes rounds them again, from model.path or run.seed"));
  }
  if (!odd_.empty()) {
    notes_.push_back(
        cat("fp8: in train.precision, since sizes are no multiples of ", sizes_text(), ": ", counted(odd_)));
  }
}

namespace {

const nn::Unit* unit_of(const nn::Layer& layer) {
  const auto* at = &layer;
  while (at->parent()) at = at->parent();
  return dynamic_cast<const nn::Unit*>(at);
}

}  // namespace

Fp8::How Fp8::multiplier(const nn::Layer& layer, const nn::WeightPtr& weight, const strategy::Placement& placement) {
  if (chosen_.count(weight) == 0) return nullptr;
  auto& made = multipliers_[weight];
  if (made) return made;
  auto how = std::make_shared<Multiplier>();
  how->of_experts = dynamic_cast<const nn::Experts*>(&layer) != nullptr;
  how->scaling = scaling(how->of_experts);
  how->gradient = options_->backward == "e5m2" ? at::kFloat8_e5m2 : at::kFloat8_e4m3fn;
  how->weight_gradient = options_->backward != "bf16";
  how->fast = options_->accumulate == "fast";
  how->counts = counts_;
  how->unit = unit_of(layer);
  how->layer = layer.path();
  how->weight = weight;
  how->sent = std::dynamic_pointer_cast<const Sent>(weight->codec());
  if (placement.mesh.size(layout::Axis::tp) > 1) how->group = placement.group({layout::Axis::tp});
  if (stores()) {
    how->stored = std::dynamic_pointer_cast<Stored>(weight->codec());
    // The port's, as long as the weight is filled and used.
    const auto agree = [of = how.get()](bool (Multiplier::*cuts)() const) {
      return [of, cuts](const at::Tensor& magnitudes) {
        if ((of->*cuts)()) of->take_maximum({magnitudes});
      };
    };
    how->stored->set_agree(agree(&Multiplier::cuts_inputs), agree(&Multiplier::cuts_outputs));
    if (stores_both()) how->frozen_transpose = std::make_shared<Frozen>();
  } else if (!weight->trainable()) {
    how->frozen = std::make_shared<Frozen>();
    how->frozen_transpose = std::make_shared<Frozen>();
  }
  return made = std::move(how);
}

void Fp8::place_linear(nn::Linear& linear, const strategy::Placement& placement) {
  const auto how = multiplier(linear, linear.weight(), placement);
  if (!how) return;
  linear.multiply.fill(
      owner, [how](const at::Tensor& x, const at::Tensor& weight) { return Multiplier::multiply(how, x, weight); });
}

void Fp8::place_experts(nn::Experts& experts, const strategy::Placement& placement) {
  const auto up = multiplier(experts, experts.gate_up(), placement),
             down = multiplier(experts, experts.down(), placement);
  const auto fill = [&](nn::Experts::MultiplyPort& port, const How& how) {
    if (!how) return;
    port.fill(owner, [how](const auto& rows, const auto& matrices, const auto& ends) {
      return Multiplier::multiply_grouped(how, rows, matrices, ends);
    });
  };
  fill(experts.gate_up_multiply, up);
  fill(experts.down_multiply, down);
  if (!up || !down || !FeedForward::takes(*up, *down)) {
    if (up) experts.gate_up_multiply.must_act();
    if (down) experts.down_multiply.must_act();
    return;
  }
  experts.products.fill(
      owner, [both = FeedForward{up, down}](const auto& rows, const auto& w_up, const auto& w_down, const auto& ends) {
        return both.multiply(rows, w_up, w_down, ends);
      });
}

void Fp8::place(nn::Unit& unit, const strategy::Placement& placement) {
  if (stores()) refuse_trained(unit);
  std::set<const nn::Linear*> joined;  // an Mlp's products may take their place
  unit.each<nn::Experts>([&](nn::Experts& experts) { place_experts(experts, placement); });
  unit.each<nn::Mlp>([&](nn::Mlp& mlp) {
    const auto up = multiplier(mlp.up(), mlp.up().weight(), placement);
    const auto down = multiplier(mlp.down(), mlp.down().weight(), placement);
    if (!up || !down || !FeedForward::takes(*up, *down)) return;
    mlp.products.fill(owner, [both = FeedForward{up, down}](const auto& x, const auto& w_up, const auto& w_down) {
      return both.multiply(x, w_up, w_down);
    });
    joined.insert({&mlp.up(), &mlp.down()});
  });
  unit.each<nn::Linear>([&](nn::Linear& linear) {
    place_linear(linear, placement);
    if (linear.multiply.owner() == owner && joined.count(&linear) == 0) linear.multiply.must_act();
  });
}

std::vector<layout::Footprint> Fp8::footprint(const strategy::Facts& facts) const {
  refuse_misfits(facts);
  refuse_cut_tiles(facts);
  // An element in forward's orientation, which the engine counts where weights are stored so, and in backward's where
  // there is one and it is kept; their scales are less than a thousandth of it.
  const std::int64_t forward = stores() ? 0 : 1, backward = facts.trains && (!stores() || stores_both()) ? 1 : 0;
  std::int64_t kept = 0, scales = 0;
  for (const auto& weight : chosen_) {
    for (const auto& record : weight->records()) {
      const auto box = record.compute.box(record.shape, facts.mesh, facts.rank);
      if (Frozen::keeps(*weight)) kept += (forward + backward) * box.numel();
      scales += box.numel() / std::max<std::int64_t>(1, box.size.back()) * static_cast<std::int64_t>(sizeof(float));
    }
  }
  std::vector<layout::Footprint> all;
  if (stores()) all.push_back({"scales of weights in 8 bits", scales, facts.device, "always"});
  if (kept > 0) {
    const auto* const what = stores() ? "transposes of weights in 8 bits" : "frozen weights in 8 bits";
    all.push_back({what, kept, facts.device, "always"});
  }
  return all;
}

}  // namespace fp8

CAPSTAN_STRATEGY("fp8", "0.1.0", "multiplies chosen layers' matrices in 8 bits", fp8::Fp8, fp8::Fp8Options)
