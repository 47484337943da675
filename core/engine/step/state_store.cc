#include "step/state_store.h"

#include <ATen/ATen.h>
#include <capstan/base/error.h>
#include <capstan/base/text.h>

namespace capstan::step {
namespace {

std::string described(c10::ScalarType dtype, at::IntArrayRef shape, c10::Device device) {
  return cat(c10::toString(dtype), " ", layout::shape_text(shape.vec()), " on ", device.str());
}

}  // namespace

// The store as one bucket of one strategy sees it, or its steps.
class StateStore::View : public strategy::State {
 public:
  View(StateStore& store, std::string plugin, const std::string& scope)
      : store_(store), plugin_(std::move(plugin)), own_(cat(plugin_, "/", scope, "/")) {}

  at::Tensor tensor(const std::string& name, at::IntArrayRef shape, const at::TensorOptions& options) override {
    check(name);
    return store_.take(store_.own_[own_ + name], own_ + name, shape, options);
  }
  at::Tensor of_part(const strategy::StepPart& part, const std::string& name,
                     const at::TensorOptions& options) override {
    check(name);
    require_held(part, name);
    const auto whole = cat(plugin_, "/", name);
    auto& entry = store_.of_records_[whole][part.record->name];
    return store_.take(entry, cat(whole, "' of '", part.record->name), {part.box.numel()}, options);
  }
  bool has(const std::string& name) const override {
    return store_.own_.contains(own_ + name) || store_.of_records_.contains(cat(plugin_, "/", name));
  }

 private:
  static void check(const std::string& name) {
    if (name.empty() || name.find('/') != std::string::npos)
      throw Error(cat("a strategy's state cannot be named '", name, "'"), "name it without '/'");
  }

  void require_held(const strategy::StepPart& part, const std::string& name) const {
    const auto held = store_.held_.find(part.record->name);
    if (store_.held_.empty() || (held != store_.held_.end() && held->second == part.box)) return;
    throw Error(cat("strategy '", plugin_, "' asks for state '", name, "' of record '", part.record->name,
                    "' for the box ", part.box.text(), ", but this rank ",
                    held == store_.held_.end() ? "updates nothing of it" : "updates " + held->second.text()),
                "give of_part() a part of StepContext::parts as it is, and narrow the tensor that it returns: a "
                "checkpoint saves state by the boxes of these parts");
  }

  StateStore& store_;
  std::string plugin_;
  std::string own_;
};

StateStore::StateStore(c10::Device device) : device_(device) {}

StateStore::~StateStore() = default;

void StateStore::hold(const std::vector<strategy::StepPart>& parts) {
  if (!held_.empty()) return;  // a rank's boxes stay what they are
  for (const auto& part : parts) held_[part.record->name] = part.box;
}

strategy::State& StateStore::of(const std::string& plugin, const std::string& scope) {
  auto& view = views_[cat(plugin, "/", scope)];
  if (!view) view = std::make_unique<View>(*this, plugin, scope);
  return *view;
}

at::Tensor StateStore::take(Entry& entry, const std::string& name, at::IntArrayRef shape,
                            const at::TensorOptions& options) const {
  const auto device = options.has_device() ? options.device() : device_;
  const auto dtype = c10::typeMetaToScalarType(options.dtype());
  if (!entry.value.defined()) entry.value = at::zeros(shape, at::TensorOptions().dtype(dtype).device(device));
  auto& value = entry.value;
  if (!entry.is_placed) value = value.to(device, dtype);  // from a checkpoint, perhaps of another precision
  entry.is_placed = true;
  if (value.sizes() != shape || value.scalar_type() != dtype || value.device().type() != device.type()) {
    throw Error(cat("state '", name, "' is ", described(value.scalar_type(), value.sizes(), value.device()), ", but ",
                    described(dtype, shape, device), " is asked for"),
                "ask for one shape, dtype and device under a name; a checkpoint of another layout cannot give it back");
  }
  return value;
}

std::vector<layout::Footprint> StateStore::footprints() const {
  std::map<std::pair<std::string, std::string>, std::int64_t> sums;
  const auto add = [&](const std::string& name, const Entry& entry) {
    if (!entry.value.defined()) return;  // it was asked for as it cannot be
    // On CPU ranks all memory is the device's, as in predictions.
    const auto device = device_.is_cpu() ? "cpu" : entry.value.is_cpu() ? "host" : "cuda";
    sums[{name.substr(0, name.find('/')), device}] += static_cast<std::int64_t>(entry.value.nbytes());
  };
  for (const auto& [name, entry] : own_) add(name, entry);
  for (const auto& [name, records] : of_records_) {
    for (const auto& [record, entry] : records) add(name, entry);
  }
  std::vector<layout::Footprint> footprints;
  for (const auto& [key, bytes] : sums) footprints.push_back({key.first + " state", bytes, key.second, "always"});
  return footprints;
}

std::map<std::string, at::Tensor> StateStore::own() const {
  std::map<std::string, at::Tensor> tensors;
  for (const auto& [name, entry] : own_) tensors[name] = entry.value;
  return tensors;
}

std::map<std::string, StateStore::ByRecord> StateStore::of_records() const {
  std::map<std::string, ByRecord> tensors;
  for (const auto& [name, records] : of_records_) {
    for (const auto& [record, entry] : records) tensors[name][record] = entry.value;
  }
  return tensors;
}

void StateStore::put_own(const std::string& name, const at::Tensor& value) { own_[name] = {value, false}; }

void StateStore::put_of_record(const std::string& name, const std::string& record, const at::Tensor& value) {
  of_records_[name][record] = {value, false};
}

}  // namespace capstan::step
