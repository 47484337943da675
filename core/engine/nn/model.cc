#include <capstan/base/text.h>
#include <capstan/nn/model.h>
#include <capstan/nn/recurrence.h>

#include <algorithm>
#include <map>
#include <set>
#include <utility>

namespace capstan::nn {

Unit::Unit(std::string name) : Layer(std::move(name)) {}
Unit::~Unit() = default;
Model::~Model() = default;
Recurrence::~Recurrence() = default;

bool Unit::trainable() const {
  return std::any_of(weights().begin(), weights().end(), [](const WeightPtr& weight) { return weight->trainable(); });
}

WeightPtr Unit::add(WeightPtr weight, Use use) { return own(std::move(weight), use); }

WeightPtr Unit::add_record(const std::string& name, std::vector<std::int64_t> shape, layout::Init init, bool decay,
                           Use use) {
  return add(std::make_shared<Weight>(std::vector<layout::Param>{record(name, std::move(shape), init, decay)}), use);
}

WeightPtr Unit::add_group(std::vector<layout::Param> records) {
  return add(std::make_shared<Weight>(std::move(records)));
}

// A and B lie as their base does (place_like_base).
void Unit::adapt(Adapter adapter) {
  own(adapter.down, Use::split);
  own(adapter.up, Use::split);
  adapters_.push_back(std::move(adapter));
}

std::vector<WeightPtr> Unit::undeclared() const {
  std::set<const Weight*> declared;
  each<Layer>([&](const Layer& layer) {
    for (const auto& [weight, use] : layer.owned()) {
      if (use != Use::undeclared) declared.insert(weight.get());
    }
  });
  std::vector<WeightPtr> list;
  for (const auto& weight : weights()) {
    if (declared.count(weight.get()) == 0) list.push_back(weight);
  }
  return list;
}

namespace {

void add_records(const Unit& unit, std::vector<layout::Param*>& list) {
  for (const auto& weight : unit.weights()) {
    for (auto& record : weight->records()) {
      if (std::find(list.begin(), list.end(), &record) == list.end()) list.push_back(&record);
    }
  }
}

template <class... Kinds>
bool is_one_of(const Layer& layer) {
  return ((dynamic_cast<const Kinds*>(&layer) != nullptr) || ...);
}

// Cut over ranks that see the same samples.
bool is_split(const layout::Param& record) {
  const auto& cuts = record.compute.cuts;
  return std::any_of(cuts.begin(), cuts.end(), [](const layout::Cut& cut) {
    return std::any_of(cut.axes.begin(), cut.axes.end(), [](layout::Axis axis) {
      return std::find(layout::data_axes.begin(), layout::data_axes.end(), axis) == layout::data_axes.end();
    });
  });
}

}  // namespace

std::vector<layout::Param*> parameters(const Unit& unit) {
  std::vector<layout::Param*> list;
  add_records(unit, list);
  return list;
}

std::vector<layout::Param*> parameters(const std::vector<std::unique_ptr<Unit>>& units) {
  std::vector<layout::Param*> list;
  for (const auto& unit : units) add_records(*unit, list);
  return list;
}

std::vector<layout::Param*> parameters(const std::vector<Unit*>& units) {
  std::vector<layout::Param*> list;
  for (const auto* unit : units) add_records(*unit, list);
  return list;
}

std::vector<const Layer*> layers_of_other_kinds(const Unit& unit) {
  std::vector<const Layer*> list;
  unit.each<Layer>([&](const Layer& layer) {
    if (&layer == &unit || layer.owned().empty()) return;
    if (!is_one_of<Linear, Embedding, VocabularyHead, ValueHead, LayerNorm, RmsNorm, Router, Experts, AttentionCore,
                   Recurrence>(layer))
      list.push_back(&layer);
  });
  return list;
}

std::vector<std::string> notes_on_other_kinds(const std::vector<std::unique_ptr<Unit>>& units,
                                              const std::string& strategy) {
  std::vector<const Layer*> first;  // the first of each name: every block has the same
  std::map<std::string, int> count;
  for (const auto& unit : units) {
    for (const auto* layer : layers_of_other_kinds(*unit)) {
      if (++count[layer->name()] == 1) first.push_back(layer);
    }
  }
  std::vector<std::string> notes;
  for (const auto* layer : first) {
    const auto more = count[layer->name()] - 1;
    notes.push_back(cat(strategy, " does not know the kind of layer ", layer->path(),
                        more > 0 ? cat(" (and of ", more, " more of that name)") : "", " and leaves it whole"));
  }
  return notes;
}

void refuse_undeclared(const Unit& unit) {
  const auto records = parameters(unit);
  const auto split = std::find_if(records.begin(), records.end(), [](const auto* record) { return is_split(*record); });
  if (split == records.end()) return;
  for (const auto& weight : unit.undeclared()) {
    if (std::any_of(weight->records().begin(), weight->records().end(), is_split)) continue;
    throw Error(cat("unit ", unit.name(), " uses ", weight->name(), " together with ", (*split)->name,
                    ", which ranks share, and no layer declares what a rank does with it"),
                "let a layer own it (nn::RmsNorm, nn::Linear, or one of your own that calls own(weight, Use::…)), or "
                "declare it where it is added (add_record(…, nn::Use::heads)): docs/plugins.md, \"Layers\"");
  }
}

}  // namespace capstan::nn
