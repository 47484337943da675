#include "translate.h"

#include <capstan/base/text.h>
#include <capstan/config/options.h>
#include <capstan/config/value.h>

#include <algorithm>
#include <optional>
#include <set>

#include "deepspeed_json.h"
#include "deepspeed_keys.h"
#include "imports/settings.h"

namespace import_deepspeed {
namespace {

using namespace capstan;
using config::Value;

// "above 0 and at most 1": which numbers a key takes.
std::string limits_of(const DeepSpeedKey& key) {
  config::OptionSpec spec;
  spec.min = key.least;
  spec.min_is_exclusive = key.is_above;
  spec.max = key.most;
  return config::limits_text(spec);
}

// An option of ours; "auto" leaves a comment in its place.
imports::Setting setting_of(const std::string& ours, const Value& value, const std::string& from) {
  return {value, from, cat(": \"auto\" (", from, "), as in [", ours.substr(0, ours.rfind('.')), "]")};
}

// One file, translated to our options.
class Import {
 public:
  explicit Import(std::string file) : file_(std::move(file)) {}

  void read(const Json& json) {
    if (!json.is_object()) throw Error("it holds no JSON object", "give a DeepSpeed configuration", file_);
    walk(json, "");
  }
  /// DeepSpeed's defaults for absent keys, and contradictions.
  void finish();
  Translated result() const;
  Diagnostics faults;

 private:
  void walk(const Json& table, const std::string& prefix);
  void unknown(const std::string& path, const std::string& prefix);
  void take(const DeepSpeedKey& key, const Json& value);
  void take_value(const DeepSpeedKey& key, const Json& value);
  void take_optimizer(const DeepSpeedKey& key, const std::string& type);
  void take_betas(const DeepSpeedKey& key, const Json& value);
  void take_dtype(const DeepSpeedKey& key, const std::string& dtype);
  void take_device(const DeepSpeedKey& key, const std::string& device);
  void take_schedule(const DeepSpeedKey& key, const std::string& name);
  void set(const DeepSpeedKey& key, const Value& value);
  void set_default(const std::string& ours, const Value& value, const std::string& from);
  void drop(const std::string& ours, const std::string& why);
  void finish_precision();
  void finish_loss_scale(bool fp16);
  void finish_schedule();
  void finish_peak();
  void finish_offload();
  void fault(const std::string& path, const std::string& what, const std::string& fix) {
    faults.add(file_, path + " " + what, fix);
  }
  // The value of an option that is set; nothing if it is absent or "auto".
  template <class T>
  std::optional<T> get(const std::string& ours) const {
    return settings_.get<T>(ours);
  }

  std::string file_;
  std::set<std::string> seen_;     // paths of the file
  std::set<std::string> enabled_;  // "fp16", "bf16"
  bool precision_is_auto_ = false;
  std::string scheduler_;     // "WarmupLR"
  double cosine_end_ = 1e-4;  // of the learning rate; DeepSpeed's default
  imports::Settings settings_;
};

void Import::walk(const Json& table, const std::string& prefix) {
  for (const auto& [name, value] : table.items()) {
    const auto path = prefix + name;
    seen_.insert(path);
    const auto& keys = deepspeed_keys();
    const auto exact = std::find_if(keys.begin(), keys.end(), [&](const auto& key) { return key.path == path; });
    const bool is_table =
        std::any_of(keys.begin(), keys.end(), [&](const auto& key) { return key.path.starts_with(path + "."); });
    if (exact != keys.end()) {
      take(*exact, value);
    } else if (is_table && value.is_object()) {
      walk(value, path + ".");
    } else if (is_table) {
      fault(path, cat("is ", value.dump(), ", expected a table"), "write { … }, or remove it");
    } else {
      unknown(path, prefix);
    }
  }
}

void Import::unknown(const std::string& path, const std::string& prefix) {
  std::vector<std::string> names;
  for (const auto& key : deepspeed_keys()) {
    if (!key.path.starts_with(prefix)) continue;
    const auto name = key.path.substr(prefix.size(), key.path.find('.', prefix.size()) - prefix.size());
    if (std::find(names.begin(), names.end(), name) == names.end()) names.push_back(name);
  }
  fault(path, "is not a key that import-deepspeed knows", imports::unknown_fix(path.substr(prefix.size()), names));
}

void Import::take(const DeepSpeedKey& key, const Json& value) {
  if (value == "auto" && key.may_be_auto && key.type != JsonType::anything) {
    if (key.take == Take::precision) {
      precision_is_auto_ = true;
    } else if (key.ours.empty()) {
      settings_.note(cat(key.path, " is not taken over: ", key.why));
    } else {
      set(key, {});
    }
  } else if (!has_type(value, key.type)) {
    fault(key.path, cat("is ", value.dump(), ", expected ", type_words(key.type)), "change it");
  } else if (value.is_number() && !key.takes(value.get<double>())) {
    fault(key.path, cat("is ", value.dump(), ", expected ", limits_of(key)), "change it");
  } else {
    take_value(key, value);
  }
}

void Import::take_value(const DeepSpeedKey& key, const Json& value) {
  switch (key.take) {
    case Take::copied:
      return set(key, plain_value(value, key.type));
    case Take::ignored:
      settings_.note(cat(key.path, " is not taken over: ", key.why));
      return;
    case Take::required:
      if (value == Json::parse(key.required)) return settings_.note(cat(key.path, " is not taken over: ", key.why));
      return fault(key.path, cat("is ", value.dump(), ", which Capstan does not offer: ", key.why),
                   cat("use ", key.required, ", or remove it"));
    case Take::optimizer:
      return take_optimizer(key, value.get<std::string>());
    case Take::precision:
      if (value.get<bool>()) enabled_.insert(key.path.substr(0, key.path.find('.')));
      return;
    case Take::loss_scale:
      return set(key, value.get<double>() == 0 ? Value("auto") : Value(number_text(value.get<double>())));
    case Take::scale_power:
      if (value.get<double>() > 62) return fault(key.path, cat("is ", value.dump()), "use 16, which gives 65536");
      return set(key, std::int64_t{1} << value.get<std::int64_t>());
    case Take::betas:
      return take_betas(key, value);
    case Take::dtype:
      return take_dtype(key, value.get<std::string>());
    case Take::schedule:
      return take_schedule(key, value.get<std::string>());
    case Take::offload:
      return take_device(key, value.get<std::string>());
    case Take::offload_flag:
      return set(key, value.get<bool>() ? "cpu" : "none");
    case Take::cosine_end:
      cosine_end_ = value.get<double>();
      return;
    case Take::off:
      if (value.is_object() && value.value("enabled", Json()) == true)
        return fault(key.path, cat("is enabled, which Capstan does not offer: ", key.why), "remove it");
      return settings_.note(cat(key.path, " is not taken over: ", key.why));
  }
}

// AdamW is what a configuration has that names no optimizer.
void Import::take_optimizer(const DeepSpeedKey& key, const std::string& type) {
  const auto name = lower(type);
  if (name == "adamw" || name == "adam") return;
  if (name == "lion" || name == "fusedlion") return set(key, "lion");
  fault(key.path, cat("is \"", type, "\", which Capstan does not offer"), R"(use "AdamW" or "Lion")");
}

void Import::take_betas(const DeepSpeedKey& key, const Json& value) {
  const auto is_rate = [](const Json& one) { return one.get<double>() >= 0 && one.get<double>() < 1; };
  if (value.size() == 2 && std::all_of(value.begin(), value.end(), is_rate))
    return set(key, plain_value(value, key.type));
  fault(key.path, cat("is ", value.dump()), "give two numbers in [0, 1), such as [0.9, 0.999]");
}

void Import::take_dtype(const DeepSpeedKey& key, const std::string& dtype) {
  static const std::vector<std::string> known{"fp32", "fp16", "bf16"};
  const auto name = lower(dtype);
  if (std::find(known.begin(), known.end(), name) != known.end()) return set(key, name);
  fault(key.path, cat("is \"", dtype, "\""), suggestion(name, known));
}

void Import::take_device(const DeepSpeedKey& key, const std::string& device) {
  if (device == "nvme") return fault(key.path, R"(is "nvme": nothing is offloaded to disks)", R"(use "cpu" or "none")");
  if (device != "cpu" && device != "none")
    return fault(key.path, cat("is \"", device, "\""), suggestion(device, {"none", "cpu"}));
  set(key, device);
}

void Import::take_schedule(const DeepSpeedKey& key, const std::string& name) {
  static const std::vector<std::pair<std::string, std::string>> schedules{
      {"WarmupLR", "constant"}, {"WarmupDecayLR", "linear"}, {"WarmupCosineLR", "cosine"}};
  std::vector<std::string> names;
  for (const auto& [theirs, ours] : schedules) {
    if (theirs == name) {
      scheduler_ = name;
      set(key, ours);
      return set_default("optimizer.warmup_from_zero", true, key.path);
    }
    names.push_back(theirs);
  }
  fault(key.path, cat("is \"", name, "\", which Capstan does not offer"), "one of: " + join(names));
}

// Two keys may mean one option of ours; a value wins over "auto".
void Import::set(const DeepSpeedKey& key, const Value& value) {
  const auto setting = setting_of(key.ours, value, key.path);
  const auto* old = settings_.set(key.ours, setting);
  if (old == nullptr) return;
  if (key.ours != "strategy.zero.pin_memory") {
    return fault(key.path,
                 cat("is ", config::value_text(value), ", ", old->from, " is ", config::value_text(old->value)),
                 cat("both mean ", key.ours, ": remove one"));
  }
  if (value == Value(true)) settings_.replace(key.ours, setting);
}

void Import::set_default(const std::string& ours, const Value& value, const std::string& from) {
  if (settings_.find(ours) == nullptr) settings_.set(ours, setting_of(ours, value, from));
}

void Import::drop(const std::string& ours, const std::string& why) {
  if (const auto old = settings_.drop(ours)) settings_.note(cat(old->from, " is not taken over: ", why));
}

void Import::finish_precision() {
  if (enabled_.size() > 1) fault("fp16.enabled and bf16.enabled", "are both true", "choose one");
  if (!enabled_.empty()) {
    set_default("train.precision", *enabled_.begin(), *enabled_.begin() + ".enabled");
  } else if (precision_is_auto_) {
    set_default("train.precision", {}, "fp16.enabled, bf16.enabled");
  } else {
    set_default("train.precision", "fp32", "neither fp16 nor bf16 is enabled");
  }
  finish_loss_scale(enabled_.contains("fp16"));
}

void Import::finish_loss_scale(bool fp16) {
  const auto scale = get<std::string>("train.loss_scale");
  const bool fixed = scale && *scale != "auto", off = !fp16 && !precision_is_auto_;
  if (off) drop("train.loss_scale", "fp16 is not enabled");
  if (off || fixed) {
    for (const char* name : {"loss_scale_init", "loss_scale_window", "loss_scale_min"})
      drop(cat("train.", name), off ? "fp16 is not enabled" : "fp16.loss_scale is fixed");
    return;
  }
  if (fp16) set_default("train.loss_scale_window", std::int64_t{1000}, "DeepSpeed's default");
  const auto* least = settings_.find("train.loss_scale_min");
  if (least == nullptr || std::holds_alternative<std::monostate>(least->value)) return;
  const auto* whole = std::get_if<std::int64_t>(&least->value);
  const auto number = whole ? static_cast<double>(*whole) : std::get<double>(least->value);
  constexpr std::int64_t default_initial = 65536;  // theirs, and ours
  const auto initial = get<std::int64_t>("train.loss_scale_init").value_or(default_initial);
  if (number > static_cast<double>(initial)) {
    fault(least->from, cat("is ", number_text(number), ", above the first scale, ", initial),
          "lower it, or raise fp16.initial_scale_power");
  }
}

// A scheduler's defaults for absent parameters.
void Import::finish_schedule() {
  if (scheduler_.empty()) return;
  set_default("optimizer.warmup_steps", std::int64_t{1000}, "DeepSpeed's default");
  finish_peak();
  if (!seen_.contains("scheduler.params.warmup_type"))
    settings_.note("scheduler.params.warmup_type is absent, \"log\" for DeepSpeed: the warm-up is linear");
  const std::string from = "scheduler.params.cos_min_ratio";
  if (scheduler_ != "WarmupCosineLR") {
    if (seen_.contains(from)) fault(from, cat("is a parameter of WarmupCosineLR, not of ", scheduler_), "remove it");
    return;
  }
  const auto lr = get<double>("optimizer.lr");
  if (lr) return set_default("optimizer.min_lr", cosine_end_ * *lr, from);
  settings_.note(
      cat(from, " is not taken over: set optimizer.min_lr to ", number_text(cosine_end_), " of optimizer.lr"));
}

// WarmupDecayLR warms up to a rate of its own; so did WarmupLR before DeepSpeed let it use the optimizer's.
void Import::finish_peak() {
  if (scheduler_ == "WarmupCosineLR" || seen_.contains("scheduler.params.warmup_max_lr")) return;
  constexpr double theirs = 1e-3;
  const auto* lr = settings_.find("optimizer.lr");
  if (lr == nullptr) return set_default("optimizer.lr", theirs, "DeepSpeed's default");
  if (lr->value == Value(theirs)) return;
  if (scheduler_ == "WarmupLR") {
    settings_.note(cat("scheduler.params.warmup_max_lr is absent: the warm-up ends at ", lr->from,
                       ", in DeepSpeed's older versions at 0.001"));
    return;
  }
  settings_.note(cat(lr->from, " is not taken over: ", scheduler_,
                     " goes up to scheduler.params.warmup_max_lr, which is absent, 0.001 for DeepSpeed"));
  settings_.replace("optimizer.lr", {theirs, "DeepSpeed's default of scheduler.params.warmup_max_lr"});
}

void Import::finish_offload() {
  set_default("strategy.zero.stage", std::int64_t{0}, "DeepSpeed's default");
  const auto stage = get<std::int64_t>("strategy.zero.stage").value_or(0);
  if (stage > 3) fault("zero_optimization.stage", cat("is ", stage), "one of: 0, 1, 2, 3");
  const auto on_cpu = [&](const char* ours) { return get<std::string>(ours) == "cpu"; };
  const auto from = [&](const char* ours) { return settings_.find(ours)->from; };
  if (on_cpu("strategy.zero.offload_param") || on_cpu("strategy.zero.offload_optimizer"))
    set_default("strategy.zero.pin_memory", false, "DeepSpeed's default");
  if (on_cpu("strategy.zero.offload_param") && stage < 3) {
    fault(
        from("strategy.zero.offload_param"),
        cat("offloads the parameters, but zero_optimization.stage is ", stage, ", where every rank computes with all"),
        "use stage 3, or remove offload_param");
  }
  if (on_cpu("strategy.zero.offload_optimizer") && stage < 1) {
    fault(from("strategy.zero.offload_optimizer"),
          "offloads the optimizer, but zero_optimization.stage is 0, where nothing is cut",
          "use stage 1 or higher, or remove offload_optimizer");
  }
  if (on_cpu("strategy.zero.offload_param") && stage >= 3 && !on_cpu("strategy.zero.offload_optimizer")) {
    fault(from("strategy.zero.offload_param"),
          "offloads the parameters and not the optimizer, which Capstan does not offer",
          R"(add "offload_optimizer": {"device": "cpu"}, or remove offload_param)");
  }
  if (!on_cpu("strategy.zero.offload_optimizer")) drop("strategy.zero.offload_ratio", "the optimizer is not offloaded");
}

void Import::finish() {
  finish_precision();
  set_default("optimizer.clip", 0.0, "DeepSpeed's default: no clipping");
  const bool names_optimizer = seen_.contains("optimizer");
  if (names_optimizer) {
    set_default("optimizer.lr", 1e-3, "DeepSpeed's default");
    set_default("optimizer.weight_decay", 0.0, "DeepSpeed's default");
    if (get<std::string>("optimizer.plugin")) drop("optimizer.eps", "Lion has none");
  }
  finish_schedule();
  finish_offload();
}

Translated Import::result() const {
  Translated out;
  out.toml =
      cat("# From ", imports::in_comment(file_),
          ".\n# A configuration that names this file in `extends` adds [model], [data] and the length of the run.\n");
  for (const std::string table : {"train", "optimizer", "strategy.zero"})
    out.toml += settings_.table_text(table, cat("[", table, "]"));
  out.toml += settings_.notes_text();
  out.notes = settings_.notes();
  return out;
}

}  // namespace

Translated translate(const std::string& file, const std::string& json) {
  Import import(file);
  import.read(parse_deepspeed(file, json, import.faults));
  import.finish();
  import.faults.throw_if_any();
  return import.result();
}

}  // namespace import_deepspeed
